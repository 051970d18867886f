//go:build !unix

package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
)

func lock(context.Context, string) (unlock func(), err error) {
	return nil, fmt.Errorf("kube-apiserver is built on Unix systems only; set %s to a binary", binaryVariable)
}

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
