//go:build !wasip1

package sless

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

func fetch(outgoing Outgoing) (*Response, error) {
	request, err := http.NewRequest(outgoing.Method, outgoing.URL, bytes.NewReader(outgoing.Body))
	if err != nil {
		return nil, err
	}
	for name, values := range outgoing.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, int64(outgoing.MaxBytes)+1))
	if err != nil {
		return nil, err
	}
	if len(body) > outgoing.MaxBytes {
		return nil, errTooLarge
	}
	header := Header{}
	for name, values := range answer.Header {
		header[strings.ToLower(name)] = values
	}
	return &Response{Status: answer.StatusCode, Header: header, Body: body}, nil
}
