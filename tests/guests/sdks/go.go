// Every part of the library that needs the host, for tests/tests/sdks.rs. The same in each language.
package main

import (
	"errors"
	"fmt"

	"github.com/naeel/sless/guest-sdks/go"
)

func init() { sless.Handle(handler) }

func main() {}

func handler(request *sless.Request) (*sless.Response, error) {
	switch request.Path {
	case "/echo":
		response := sless.Bytes(request.Body)
		if kind := request.Header.Get("content-type"); kind != "" {
			response.Header.Set("content-type", kind)
		}
		return response, nil
	case "/fetch":
		answer, err := sless.Fetch(sless.Outgoing{
			Method: "POST", URL: request.Query().Get("url"), Header: sless.Header{"x-a": {"b"}}, Body: []byte("ping"),
		})
		if err != nil {
			return nil, err
		}
		return sless.Text(fmt.Sprintf("%d %s %s", answer.Status, answer.Header.Get("X-Seen"), answer.Body)), nil
	case "/env":
		value, err := sless.Env("GREETING")
		return sless.Text(value), err
	case "/cookies":
		response := sless.Text("").With(201)
		response.Header.Add("Set-Cookie", "a=1")
		response.Header.Add("Set-Cookie", "b=2")
		return response, nil
	case "/error":
		return nil, errors.New("no number")
	}
	target := request.Path
	if request.RawQuery != "" {
		target += "?" + request.RawQuery
	}
	return sless.Text(request.Method + " " + target), nil
}
