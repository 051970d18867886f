package lease

// HolderOf returns who holds the lease by the value of its key; "" if it is free, or if the key holds no record.
func HolderOf(value []byte) string {
	r, err := decode(value)
	if err != nil {
		return ""
	}
	return r.HolderIdentity
}
