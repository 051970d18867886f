package main

import (
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd starts an etcd of one member in this process and returns when it serves. It serves only who has the key,
// because other users of the machine may connect to its ports, and who writes to etcd is above all rights.
func startEtcd(dir, certFile, keyFile string) (*embed.Etcd, error) {
	// The API server is in the same process, so nobody else needs to know the ports: the system chooses them, anew at
	// each start.
	loopback := []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ClientTLSInfo = transport.TLSInfo{
		CertFile: certFile, KeyFile: keyFile, TrustedCAFile: certFile, ClientCertAuth: true,
	}
	cfg.PeerTLSInfo = cfg.ClientTLSInfo
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = loopback, loopback
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = loopback, loopback
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// What was written survives a kill of this process, as the kernel has it. It would not survive the machine.
	cfg.UnsafeNoFsync = true
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{"stderr"}
	// On a busy machine each request is slow, which says nothing about etcd. Without a value every request is logged.
	cfg.WarningApplyDuration = 5 * time.Second
	cfg.WarningUnaryRequestDuration = 5 * time.Second

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		etcd.Close()
		return nil, err
	case <-time.After(time.Minute):
		etcd.Close()
		return nil, fmt.Errorf("etcd was not ready after a minute")
	}
}
