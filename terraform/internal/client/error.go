package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
)

// maxProblemBytes bounds what is read of an answer that is an error: a problem is a few kilobytes.
const maxProblemBytes = 256 << 10

// Error is an answer of the platform that is none of those hoped for.
type Error struct {
	// Status is the answer's HTTP status.
	Status int
	// Code is the platform's stable word for it; empty where something else answered.
	Code string
	// Detail says what happened and what to do.
	Detail string
	// Fields are the parts of the request that are at fault, as JSON Pointers.
	Fields []api.FieldError
	// RequestID finds the request in the platform's log.
	RequestID string
}

func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.Detail)
	for _, field := range e.Fields {
		fmt.Fprintf(&text, "\n  %s: %s", field.Pointer, field.Detail)
	}
	fmt.Fprintf(&text, "\n\n(HTTP status %d", e.Status)
	if e.Code != "" {
		fmt.Fprintf(&text, ", code %s", e.Code)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&text, ", request %s", e.RequestID)
	}
	text.WriteString(")")
	return text.String()
}

// IsNotFound is whether an error says that the object is not there.
func IsNotFound(err error) bool { return hasStatus(err, http.StatusNotFound) }

// IsConflict is whether an error says that there is such an object already, or that it was changed by someone else.
func IsConflict(err error) bool { return hasStatus(err, http.StatusConflict) }

// IsDenied is whether an error says that the token is not taken.
func IsDenied(err error) bool {
	return hasStatus(err, http.StatusUnauthorized) || hasStatus(err, http.StatusForbidden)
}

func hasStatus(err error, status int) bool {
	var refused *Error
	return errors.As(err, &refused) && refused.Status == status
}

// refusal reads an answer that is an error.
func refusal(response *http.Response) *Error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxProblemBytes))
	var problem struct {
		Title     string           `json:"title"`
		Detail    string           `json:"detail"`
		Code      string           `json:"code"`
		RequestID string           `json:"requestId"`
		Errors    []api.FieldError `json:"errors"`
	}
	failure := &Error{Status: response.StatusCode}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json") && json.Unmarshal(body, &problem) == nil {
		failure.Code, failure.RequestID, failure.Fields = problem.Code, problem.RequestID, problem.Errors
		failure.Detail = problem.Detail
		if failure.Detail == "" {
			failure.Detail = problem.Title
		}
		return failure
	}
	failure.Detail = fmt.Sprintf("%s was answered by something that is not a sless platform; check `endpoint`", response.Request.URL.Redacted())
	if excerpt := strings.TrimSpace(string(body[:min(len(body), 200)])); excerpt != "" {
		failure.Detail += fmt.Sprintf(". It said: %q", excerpt)
	}
	return failure
}
