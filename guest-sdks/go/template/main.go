// {{name}}: greets whom the query names.
package main

import (
	"log/slog"

	"github.com/naeel/sless/guest-sdks/go"
)

func init() { sless.Handle(handler) }

// main is there for the compiler only.
func main() {}

type greeting struct {
	Message string `json:"message"`
}

// An error that is returned becomes a problem document: a Problem with its own status, any other with 500.
func handler(request *sless.Request) (*sless.Response, error) {
	name := "world"
	if query := request.Query(); query.Has("name") {
		name = query.Get("name")
	}
	if name == "" {
		return nil, &sless.Problem{Status: 400, Code: "bad_request", Detail: "`name` is empty; leave it out or give one"}
	}
	slog.Info("greeting "+name, "path", request.Path)
	return sless.JSON(greeting{Message: "hello, " + name})
}
