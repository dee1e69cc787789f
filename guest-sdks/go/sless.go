// Package sless is for functions in Go: register a [Handler] with [Handle], and it answers the requests of a component.
//
//	func init() { sless.Handle(handler) }
//
//	func main() {}
//
//	func handler(request *sless.Request) (*sless.Response, error) {
//		return sless.JSON(map[string]string{"hello": request.Query().Get("name")})
//	}
//
// The log is [log/slog]: each line is a JSON object with the request's id. What is printed otherwise is a line of the
// function's log as well. Settings are environment variables, see [Env]. [Call] calls a handler in tests, without a server.
package sless

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// Header has fields by name in lower case, each with its values in order.
type Header map[string][]string

// Get gives the first value of a field, or "".
func (h Header) Get(name string) string {
	if values := h[strings.ToLower(name)]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Set makes a value the only one of a field.
func (h Header) Set(name, value string) { h[strings.ToLower(name)] = []string{value} }

// Add adds a value to a field; several of a name stay apart.
func (h Header) Add(name, value string) {
	name = strings.ToLower(name)
	h[name] = append(h[name], value)
}

// Request is a request, whole. How large it may be is for the platform to say (limits.requestBytes).
type Request struct {
	// Method is as it was sent, such as "GET"; "" is "GET" in tests.
	Method string
	// Path is what follows the function's name, byte for byte: "%2F" stays "%2F".
	Path string
	// RawQuery is what follows "?", byte for byte.
	RawQuery string
	Header   Header
	Body     []byte
}

// ID is the request's id, which is in its log lines too; "" outside of the platform.
func (r *Request) ID() string { return r.Header.Get("x-request-id") }

// Query is the query, decoded as a form. What can't be decoded is left out.
func (r *Request) Query() url.Values {
	values, _ := url.ParseQuery(r.RawQuery)
	return values
}

// JSON reads the body into a value. A body that is not as expected is a [Problem] with status 400.
func (r *Request) JSON(into any) error {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return &Problem{Status: 400, Code: "bad_request", Detail: "the body is not as expected: " + err.Error()}
	}
	return nil
}

// Response is what a handler answers. A status of 0 is 200.
type Response struct {
	Status int
	Header Header
	Body   []byte
}

// With gives the response another status.
func (r *Response) With(status int) *Response {
	r.Status = status
	return r
}

// JSON is a response with a value as JSON.
func JSON(value any) (*Response, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write the response as JSON: %w", err)
	}
	return typed(body, "application/json"), nil
}

// Text is a response with text.
func Text(text string) *Response { return typed([]byte(text), "text/plain; charset=utf-8") }

// Bytes is a response with bytes.
func Bytes(body []byte) *Response { return typed(body, "application/octet-stream") }

func typed(body []byte, contentType string) *Response {
	return &Response{Status: 200, Header: Header{"content-type": {contentType}}, Body: body}
}

// Problem is an error that the caller is meant to see, as application/problem+json (RFC 9457).
type Problem struct {
	// Status is 400 to 599.
	Status int
	// Code is a word for programs, such as "order_not_found".
	Code string
	// Detail is a sentence for people.
	Detail string
}

func (p *Problem) Error() string { return p.Detail }

// Handler answers a request. An error becomes a problem document: a [Problem], also a wrapped one, with its own status,
// any other with 500, as a panic does.
type Handler func(*Request) (*Response, error)

var handler Handler = func(*Request) (*Response, error) {
	return nil, errors.New("there is no handler; call sless.Handle in an init function")
}

// Handle makes a handler the function's. Call it in an init function: main does not run.
func Handle(h Handler) { handler = h }

// Call answers a request as the platform has it answered; for tests.
func Call(h Handler, request *Request) *Response { return answer(h, request) }

// Env gives an environment variable that has to be there.
func Env(name string) (string, error) {
	if value, ok := os.LookupEnv(name); ok {
		return value, nil
	}
	return "", fmt.Errorf("%s is not set; give it in [env] or [secretRefs] of sless.toml", name)
}

// What a caller is told of an unforeseen error ends here; the log has all of it.
const maxDetail = 2000

// Of the connection, not of the response: the host sets them, and refuses a function's.
var hopByHop = []string{"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"}

func answer(h Handler, request *Request) *Response {
	if request.Method == "" {
		request.Method = "GET"
	}
	if request.Header == nil {
		request.Header = Header{}
	}
	startLog(request.ID())
	response, err := call(h, request)
	switch {
	case err != nil:
		response = problem(err, request)
	case response == nil:
		response = &Response{Status: 204}
	case response.Status == 0:
		response.Status = 200
	}
	if response.Header == nil {
		response.Header = Header{}
	}
	for _, name := range hopByHop {
		delete(response.Header, name)
	}
	if response.Status != 204 && response.Status != 304 && response.Header["content-length"] == nil {
		response.Header.Set("content-length", strconv.Itoa(len(response.Body)))
	}
	return response
}

// panicked is a panic of a handler as an error.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprint(p.value) }

func call(h Handler, request *Request) (response *Response, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value, debug.Stack()}
		}
	}()
	return h(request)
}

func problem(err error, request *Request) *Response {
	told := Problem{Status: 500, Code: "function_error", Detail: err.Error()}
	kind, title := "urn:sless:problem:function_error", "The function raised an error"
	var meant *Problem
	var panic *panicked
	switch {
	case errors.As(err, &meant):
		told = *meant
		kind, title = "about:blank", ""
	case errors.As(err, &panic):
		slog.Error("the handler panicked", "error", err.Error(), "stack", string(panic.stack))
	default:
		slog.Error("the handler failed", "error", err.Error())
	}
	if runes := []rune(told.Detail); len(runes) > maxDetail {
		told.Detail = string(runes[:maxDetail]) + "…"
	}
	body, _ := json.Marshal(struct {
		Type      string `json:"type"`
		Title     string `json:"title,omitempty"`
		Status    int    `json:"status"`
		Detail    string `json:"detail"`
		Instance  string `json:"instance"`
		Code      string `json:"code,omitempty"`
		RequestID string `json:"requestId"`
	}{kind, title, told.Status, told.Detail, request.Path, told.Code, request.ID()})
	return typed(body, "application/problem+json").With(told.Status)
}
