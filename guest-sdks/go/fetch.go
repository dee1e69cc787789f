package sless

import "errors"

// Outgoing is a request to somewhere else. Where to is for the platform to say (egress.allow).
type Outgoing struct {
	// Method is "GET" if it is "".
	Method string
	// URL begins with http:// or https://.
	URL    string
	Header Header
	Body   []byte
	// MaxBytes is how much of the response's body is read; more is an error. 0 is 6 MiB.
	MaxBytes int
}

const defaultMaxBytes = 6 << 20

var errTooLarge = errors.New("the response has more bytes than MaxBytes allows")

// Fetch sends a request and reads the response; any status is an answer. In tests it goes through [net/http].
func Fetch(outgoing Outgoing) (*Response, error) {
	if outgoing.Method == "" {
		outgoing.Method = "GET"
	}
	if outgoing.MaxBytes == 0 {
		outgoing.MaxBytes = defaultMaxBytes
	}
	return fetch(outgoing)
}
