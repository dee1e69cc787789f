package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/hashicorp/go-cleanhttp"
	"github.com/hashicorp/go-retryablehttp"
)

const (
	// maxRetries with doubling waits are some two minutes, longer than a restart of the platform takes; an operation's
	// own timeout ends them earlier.
	maxRetries = 12
	minWait    = 200 * time.Millisecond
	maxWait    = 20 * time.Second
	// maxUnreachable is how often a connection that can't be made is tried: a wrong endpoint should be told soon.
	maxUnreachable = 3
	// maxConnections is above Terraform's own parallelism (10 by default), so that connections are kept.
	maxConnections = 128
)

// transport sends requests, again where that is safe. It is what the generated client sends by.
type transport struct {
	inner *retryablehttp.Client
}

type attemptsKey struct{}

func newTransport() *transport {
	pool := cleanhttp.DefaultPooledTransport()
	pool.MaxIdleConnsPerHost = maxConnections
	inner := retryablehttp.NewClient()
	inner.HTTPClient = &http.Client{Transport: pool}
	inner.Logger = nil
	inner.RetryMax, inner.RetryWaitMin, inner.RetryWaitMax = maxRetries, minWait, maxWait
	// It reads Retry-After of 429 and 503, as seconds and as a date.
	inner.Backoff = retryablehttp.DefaultBackoff
	inner.CheckRetry = again
	// The last answer is the caller's, who reads its problem.
	inner.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return &transport{inner}
}

// Do implements the generated client's doer.
func (t *transport) Do(request *http.Request) (*http.Response, error) {
	attempts := 0
	ctx := context.WithValue(request.Context(), attemptsKey{}, &attempts)
	ctx = context.WithValue(ctx, methodKey{}, request.Method)
	wrapped := &retryablehttp.Request{Request: request.WithContext(ctx)}
	if request.GetBody != nil {
		// The body is in memory once: a retry reads the same bytes.
		size := request.ContentLength
		if err := wrapped.SetBody(retryablehttp.ReaderFunc(func() (io.Reader, error) { return request.GetBody() })); err != nil {
			return nil, err
		}
		wrapped.ContentLength = size
	}
	return t.inner.Do(wrapped)
}

type methodKey struct{}

// again says whether a request is sent again. 429 and 503 say that nothing was done; what was lost on the way may have
// been done, so only what can be done twice is sent again.
func again(ctx context.Context, response *http.Response, err error) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err == nil {
		switch response.StatusCode {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return true, nil
		case http.StatusBadGateway, http.StatusGatewayTimeout:
			// Said by something in front of the platform: it may have been done.
			return idempotent(ctx), nil
		}
		return false, nil
	}
	attempts := ctx.Value(attemptsKey{}).(*int)
	*attempts++
	if *attempts >= maxUnreachable {
		return false, nil
	}
	if unreachable(err) {
		return true, nil
	}
	retry, _ := retryablehttp.DefaultRetryPolicy(ctx, nil, err)
	return retry && idempotent(ctx), nil
}

// unreachable is an error of making the connection: the request did not leave.
func unreachable(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED)
}

func idempotent(ctx context.Context) bool {
	switch ctx.Value(methodKey{}).(string) {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}
