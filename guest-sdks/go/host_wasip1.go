//go:build wasip1

package sless

// The host's side: wasi:http in and out, by the generated bindings.

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/naeel/sless/guest-sdks/go/internal/wit/imports/wasi_http_outgoing_handler"
	http "github.com/naeel/sless/guest-sdks/go/internal/wit/imports/wasi_http_types"
	"github.com/naeel/sless/guest-sdks/go/internal/wit/imports/wasi_io_streams"
	witRuntime "go.bytecodealliance.org/pkg/wit/runtime"
	wit "go.bytecodealliance.org/pkg/wit/types"
)

const (
	// The most that one blocking-write-and-flush takes.
	writeBytes = 4096
	// A piece of what is read.
	readBytes = 64 << 10
)

var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

var errBroken = errors.New("the body broke off")

//go:wasmexport wasi:http/incoming-handler@0.2.12#handle
func handle(incoming, out int32) {
	response := receive(http.IncomingRequestFromOwnHandle(incoming))
	made := http.MakeOutgoingResponse(fields(response.Header))
	status := response.Status
	if made.SetStatusCode(uint16(status)).IsErr() {
		made.SetStatusCode(500)
	}
	body := made.Body().Ok()
	http.ResponseOutparamSet(http.ResponseOutparamFromOwnHandle(out), wit.Ok[*http.OutgoingResponse, http.ErrorCode](made))
	write(body, response.Body)
}

func receive(incoming *http.IncomingRequest) *Response {
	defer incoming.Drop()
	path, query := split(strings.Clone(incoming.PathWithQuery().SomeOr("/")))
	request := &Request{Method: method(incoming.Method()), Path: path, RawQuery: query, Header: takeHeader(incoming.Headers())}
	body, err := read(incoming.Consume().Ok(), -1)
	if err != nil {
		return problem(&Problem{Status: 400, Code: "bad_request", Detail: "the request's " + err.Error()}, request)
	}
	request.Body = body
	return answer(handler, request)
}

func split(target string) (path, query string) {
	for i := range len(target) {
		if target[i] == '?' {
			return target[:i], target[i+1:]
		}
	}
	return target, ""
}

func method(given http.Method) string {
	if tag := int(given.Tag()); tag < len(methods) {
		return methods[tag]
	}
	return strings.Clone(given.Other())
}

func takeHeader(given *http.Fields) Header {
	defer given.Drop()
	header := Header{}
	for _, field := range given.Entries() {
		header.Add(strings.Clone(field.F0), string(field.F1))
	}
	// What the host handed over so far is copied.
	witRuntime.Unpin()
	return header
}

func fields(given Header) *http.Fields {
	fields := http.MakeFields()
	for name, values := range given {
		for _, value := range values {
			// What can't be a header is left out, as the host would.
			fields.Append(name, []byte(value))
		}
	}
	return fields
}

// read reads a body to its end and drops it. A limit below 0 is none: the host has one.
func read(body *http.IncomingBody, limit int) ([]byte, error) {
	defer body.Drop()
	stream := body.Stream().Ok()
	defer stream.Drop()
	var all []byte
	for {
		piece := stream.BlockingRead(readBytes)
		if piece.IsErr() {
			failure := piece.Err()
			if failure.Tag() == wasi_io_streams.StreamError_Closed {
				return all, nil
			}
			failure.LastOperationFailed().Drop()
			return nil, errBroken
		}
		all = append(all, piece.Ok()...)
		witRuntime.Unpin()
		if limit >= 0 && len(all) > limit {
			return nil, errTooLarge
		}
	}
}

// write writes a body and ends it. A failure means that the other side has gone: there is nobody left to tell.
func write(body *http.OutgoingBody, bytes []byte) {
	stream := body.Write().Ok()
	for len(bytes) > 0 {
		piece := bytes[:min(len(bytes), writeBytes)]
		if written := stream.BlockingWriteAndFlush(piece); written.IsErr() {
			if failure := written.Err(); failure.Tag() != wasi_io_streams.StreamError_Closed {
				failure.LastOperationFailed().Drop()
			}
			stream.Drop()
			body.Drop()
			return
		}
		bytes = bytes[len(piece):]
	}
	stream.Drop()
	http.OutgoingBodyFinish(body, wit.None[*http.Fields]())
}

func fetch(outgoing Outgoing) (*Response, error) {
	address, err := url.Parse(outgoing.URL)
	if err != nil {
		return nil, err
	}
	header := Header{}
	for name, values := range outgoing.Header {
		header[strings.ToLower(name)] = values
	}
	if len(outgoing.Body) > 0 {
		header.Set("content-length", strconv.Itoa(len(outgoing.Body)))
	}
	request := http.MakeOutgoingRequest(fields(header))
	scheme := http.MakeSchemeHttps()
	switch address.Scheme {
	case "https":
	case "http":
		scheme = http.MakeSchemeHttp()
	default:
		return nil, fmt.Errorf("fetch %s: a URL begins with http:// or https://", outgoing.URL)
	}
	given := http.MakeMethodOther(outgoing.Method)
	for tag, name := range methods {
		if name == outgoing.Method {
			given = known(tag)
		}
	}
	if request.SetMethod(given).IsErr() || request.SetScheme(wit.Some(scheme)).IsErr() ||
		request.SetAuthority(wit.Some(address.Host)).IsErr() ||
		request.SetPathWithQuery(wit.Some(address.RequestURI())).IsErr() {
		return nil, fmt.Errorf("fetch %s: the method or the URL is not valid", outgoing.URL)
	}
	body := request.Body().Ok()
	sent := wasi_http_outgoing_handler.Handle(request, wit.None[*http.RequestOptions]())
	if sent.IsErr() {
		body.Drop()
		return nil, fmt.Errorf("fetch from %s: %s", address.Host, why(sent.Err()))
	}
	write(body, outgoing.Body)
	future := sent.Ok()
	defer future.Drop()
	ready := future.Subscribe()
	ready.Block()
	ready.Drop()
	result := future.Get().Some().Ok()
	if result.IsErr() {
		return nil, fmt.Errorf("fetch from %s: %s", address.Host, why(result.Err()))
	}
	incoming := result.Ok()
	defer incoming.Drop()
	response := &Response{Status: int(incoming.Status()), Header: takeHeader(incoming.Headers())}
	response.Body, err = read(incoming.Consume().Ok(), outgoing.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("fetch from %s: %w", address.Host, err)
	}
	return response, nil
}

func known(tag int) http.Method {
	return []func() http.Method{
		http.MakeMethodGet, http.MakeMethodHead, http.MakeMethodPost, http.MakeMethodPut, http.MakeMethodDelete,
		http.MakeMethodConnect, http.MakeMethodOptions, http.MakeMethodTrace, http.MakeMethodPatch,
	}[tag]()
}

func why(code http.ErrorCode) string {
	switch code.Tag() {
	case http.ErrorCode_HttpRequestDenied, http.ErrorCode_DestinationIpProhibited:
		return "the function may not connect there; name the host in egress.allow of sless.toml"
	case http.ErrorCode_DnsError, http.ErrorCode_DnsTimeout, http.ErrorCode_DestinationNotFound:
		return "the host's name is not known"
	case http.ErrorCode_ConnectionRefused, http.ErrorCode_DestinationUnavailable:
		return "the connection was refused"
	case http.ErrorCode_ConnectionTimeout, http.ErrorCode_HttpResponseTimeout:
		return "it took too long"
	case http.ErrorCode_TlsProtocolError, http.ErrorCode_TlsCertificateError, http.ErrorCode_TlsAlertReceived:
		return "TLS failed: the host's certificate or protocol is not accepted"
	default:
		return fmt.Sprintf("the exchange failed (wasi:http error-code %d)", code.Tag())
	}
}
