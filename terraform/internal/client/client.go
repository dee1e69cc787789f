// Package client calls the platform's API: the generated client, with a token, retries, bounded answers and errors that
// can be told apart.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"terra.k8c.ru/naeel/terraform-provider-sless/internal/api"
)

const (
	// maxAnswerBytes bounds an answer: a page of invocations has the ends of their logs.
	maxAnswerBytes = 32 << 20
	// maxLogBytes bounds a build log; the platform keeps less.
	maxLogBytes = 4 << 20
	// pageItems is what a list gives at most at once.
	pageItems = 500
	// maxPages bounds a list that goes on for ever.
	maxPages = 1000
)

// Client calls the platform for one tenant. It may be used by many goroutines.
type Client struct {
	raw       *api.Client
	namespace string
}

// New makes a client of a namespace.
func New(endpoint, token, namespace, userAgent string) (*Client, error) {
	sign := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("User-Agent", userAgent)
		return nil
	}
	raw, err := api.NewClient(endpoint, api.WithHTTPClient(newTransport()), api.WithRequestEditorFn(sign))
	if err != nil {
		return nil, err
	}
	return &Client{raw: raw, namespace: namespace}, nil
}

// Namespace is the tenant's namespace.
func (c *Client) Namespace() string { return c.namespace }

// Ensure makes the namespace where it is not there yet.
func (c *Client) Ensure(ctx context.Context) (*api.NamespaceInfo, error) {
	return decode[api.NamespaceInfo](c.raw.Ensure(ctx, c.namespace))
}

// Function reads one.
func (c *Client) Function(ctx context.Context, name string) (*api.Function, error) {
	return decode[api.Function](c.raw.GetFunction(ctx, c.namespace, name))
}

// CreateFunction makes one, without code yet.
func (c *Client) CreateFunction(ctx context.Context, name string, spec api.FunctionSpec) (*api.Function, error) {
	return decode[api.Function](c.raw.CreateFunction(ctx, c.namespace, api.NewFunction{Name: name, Spec: spec}))
}

// UpdateFunction replaces its settings and keeps its code.
func (c *Client) UpdateFunction(ctx context.Context, name string, spec api.FunctionSpec) (*api.Function, error) {
	return decode[api.Function](c.raw.UpdateFunction(ctx, c.namespace, name, nil, api.FunctionUpdate{Spec: spec}))
}

// Upload gives it code; its build goes on behind the answer.
func (c *Client) Upload(ctx context.Context, name, mediaType string, code []byte) (*api.Deployed, error) {
	return decode[api.Deployed](c.raw.UploadCodeWithBody(ctx, c.namespace, name, nil, mediaType, bytes.NewReader(code)))
}

// DeleteFunction deletes it with its versions, code and rows.
func (c *Client) DeleteFunction(ctx context.Context, name string) error {
	return done(c.raw.DeleteFunction(ctx, c.namespace, name, nil))
}

// BuildLog is what the build of its newest version printed.
func (c *Client) BuildLog(ctx context.Context, name string) (string, error) {
	response, err := c.raw.GetBuildLog(ctx, c.namespace, name, nil)
	text, err := body(response, err, maxLogBytes)
	return string(text), err
}

// Invocations are its newest calls, at most limit of them.
func (c *Client) Invocations(ctx context.Context, name string, limit int, params api.ListFunctionInvocationsParams) ([]api.Invocation, error) {
	rows := []api.Invocation{}
	for range maxPages {
		count := int32(min(limit-len(rows), pageItems))
		params.Limit = &count
		page, err := decode[api.PageInvocation](c.raw.ListFunctionInvocations(ctx, c.namespace, name, &params))
		if err != nil {
			return nil, err
		}
		for _, row := range page.Items {
			rows = append(rows, api.Invocation(row))
		}
		if page.Next == nil || len(rows) >= limit {
			return rows, nil
		}
		params.Cursor = page.Next
	}
	return nil, fmt.Errorf("the list of invocations does not end after %d pages", maxPages)
}

// Secrets are the names of all secrets.
func (c *Client) Secrets(ctx context.Context) (map[string]bool, error) {
	names, limit := map[string]bool{}, int32(pageItems)
	params := api.ListSecretsParams{Limit: &limit}
	for range maxPages {
		page, err := decode[api.PageSecretInfo](c.raw.ListSecrets(ctx, c.namespace, &params))
		if err != nil {
			return nil, err
		}
		for _, secret := range page.Items {
			names[secret.Name] = true
		}
		if page.Next == nil {
			return names, nil
		}
		params.Cursor = page.Next
	}
	return nil, fmt.Errorf("the list of secrets does not end after %d pages", maxPages)
}

// PutSecret writes a value that can't be read back.
func (c *Client) PutSecret(ctx context.Context, name, value string) error {
	return done(c.raw.PutSecret(ctx, c.namespace, name, api.NewSecretValue{Value: &value}))
}

// DeleteSecret removes it.
func (c *Client) DeleteSecret(ctx context.Context, name string) error {
	return done(c.raw.DeleteSecret(ctx, c.namespace, name))
}

// Trigger reads one.
func (c *Client) Trigger(ctx context.Context, name string) (*api.Trigger, error) {
	return decode[api.Trigger](c.raw.GetTrigger(ctx, c.namespace, name))
}

// CreateTrigger makes one.
func (c *Client) CreateTrigger(ctx context.Context, name string, spec api.TriggerSpec) (*api.Trigger, error) {
	return decode[api.Trigger](c.raw.CreateTrigger(ctx, c.namespace, api.NewTrigger{Name: name, Spec: spec}))
}

// UpdateTrigger replaces its settings.
func (c *Client) UpdateTrigger(ctx context.Context, name string, spec api.TriggerSpec) (*api.Trigger, error) {
	return decode[api.Trigger](c.raw.UpdateTrigger(ctx, c.namespace, name, nil, api.TriggerUpdate{Spec: spec}))
}

// DeleteTrigger deletes it.
func (c *Client) DeleteTrigger(ctx context.Context, name string) error {
	return done(c.raw.DeleteTrigger(ctx, c.namespace, name, nil))
}

func decode[T any](response *http.Response, err error) (*T, error) {
	text, err := body(response, err, maxAnswerBytes)
	if err != nil {
		return nil, err
	}
	value := new(T)
	if err := json.Unmarshal(text, value); err != nil {
		return nil, fmt.Errorf("%s answered what this provider can't read: %w; check `endpoint`, or use a provider of the platform's release",
			response.Request.URL.Redacted(), err)
	}
	return value, nil
}

func done(response *http.Response, err error) error {
	_, err = body(response, err, maxAnswerBytes)
	return err
}

// body reads an answer to its end, so that its connection is used again.
func body(response *http.Response, err error, limit int64) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return nil, refusal(response)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", response.Request.URL.Redacted(), err)
	}
	if int64(len(text)) > limit {
		return nil, errors.New("the answer is larger than " + fmt.Sprint(limit) + " bytes")
	}
	return text, nil
}

// Probe asks another service whether it takes the token. Any answer but a refusal is a yes.
func Probe(ctx context.Context, endpoint, token, userAgent string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("User-Agent", userAgent)
	response, err := newTransport().Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &Error{Status: response.StatusCode, Detail: "the token is not taken there"}
	}
	return nil
}
