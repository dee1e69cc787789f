package sless

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

func handle(request *Request) (*Response, error) {
	switch request.Path {
	case "/orders":
		var order struct{ Count int }
		if err := request.JSON(&order); err != nil {
			return nil, err
		}
		response, err := JSON(map[string]int{"ordered": order.Count})
		if err == nil {
			response.With(201).Header.Add("Set-Cookie", "a=1")
			response.Header.Add("set-cookie", "b=2")
		}
		return response, err
	case "/panic":
		var none map[string]int
		none["x"] = 1
	case "/error":
		return nil, fmt.Errorf("look up: %w", io.ErrUnexpectedEOF)
	case "/wrapped":
		return nil, fmt.Errorf("look up: %w", &Problem{Status: 404, Code: "order_not_found", Detail: "there is no order 7"})
	case "/hop":
		return &Response{Header: Header{"connection": {"close"}, "x-kept": {"yes"}}}, nil
	}
	return nil, nil
}

func document(t *testing.T, response *Response) map[string]any {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal(response.Body, &document); err != nil {
		t.Fatalf("%v: %s", err, response.Body)
	}
	return document
}

func TestJSONInAndOut(t *testing.T) {
	response := Call(handle, &Request{Method: "POST", Path: "/orders", Body: []byte(`{"count": 3}`)})
	if response.Status != 201 || string(response.Body) != `{"ordered":3}` {
		t.Fatalf("%d %s", response.Status, response.Body)
	}
	expected := Header{"content-type": {"application/json"}, "content-length": {"13"}, "set-cookie": {"a=1", "b=2"}}
	if !reflect.DeepEqual(response.Header, expected) {
		t.Fatal(response.Header)
	}
}

func TestErrorsBecomeProblems(t *testing.T) {
	for _, c := range []struct {
		path, body   string
		status       int
		code, detail string
	}{
		{"/orders", "{", 400, "bad_request", "the body is not as expected"},
		{"/wrapped", "", 404, "order_not_found", "there is no order 7"},
		{"/error", "", 500, "function_error", "look up: unexpected EOF"},
		{"/panic", "", 500, "function_error", "assignment to entry in nil map"},
	} {
		request := &Request{Path: c.path, Body: []byte(c.body), Header: Header{"x-request-id": {"r1"}}}
		response := Call(handle, request)
		problem := document(t, response)
		if response.Status != c.status || problem["code"] != c.code || problem["requestId"] != "r1" ||
			problem["instance"] != c.path || !strings.Contains(problem["detail"].(string), c.detail) {
			t.Errorf("%s: %d %v", c.path, response.Status, problem)
		}
		if response.Header.Get("Content-Type") != "application/problem+json" {
			t.Error(response.Header)
		}
	}
}

func TestNothingIs204AndHeadersOfTheConnectionStayOut(t *testing.T) {
	response := Call(handle, &Request{Path: "/"})
	if response.Status != 204 || len(response.Header) != 0 {
		t.Fatal(response)
	}
	response = Call(handle, &Request{Path: "/hop"})
	if response.Status != 200 || response.Header["connection"] != nil || response.Header.Get("X-Kept") != "yes" {
		t.Fatal(response)
	}
}

func TestFetchInTests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Header.Get("X-A"))
		w.WriteHeader(418)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL.RequestURI(), body)
	}))
	defer server.Close()
	outgoing := Outgoing{Method: "PUT", URL: server.URL + "/a?b=c", Header: Header{"x-a": {"1"}}, Body: []byte("x")}
	response, err := Fetch(outgoing)
	if err != nil || response.Status != 418 || string(response.Body) != "PUT /a?b=c x" || response.Header.Get("x-seen") != "1" {
		t.Fatal(response, err)
	}
	outgoing.MaxBytes = 3
	if _, err := Fetch(outgoing); !errors.Is(err, errTooLarge) {
		t.Fatal(err)
	}
}

func TestWhatIsNotSetIsNamed(t *testing.T) {
	if _, err := Env("SURELY_NOT_SET"); err == nil || !strings.Contains(err.Error(), "SURELY_NOT_SET") {
		t.Fatal(err)
	}
}
