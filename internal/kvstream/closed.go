package kvstream

// IfClosed is what to do about a connection that is closed: nothing opens it again.
const IfClosed = "restart the process, and close the connection only after all that uses it has ended"
