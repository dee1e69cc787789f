package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answers is a server that gives one answer after the other, the last one for ever.
func answers(t *testing.T, each ...http.HandlerFunc) (*Client, *atomic.Int32) {
	t.Helper()
	var count atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		each[min(int(count.Add(1)), len(each))-1](w, r)
	}))
	t.Cleanup(server.Close)
	client, err := New(server.URL, "t.o.ken", "sless-0123456789abcdef", "test")
	if err != nil {
		t.Fatal(err)
	}
	return client, &count
}

func status(code int, retryAfter string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(code)
	}
}

func function(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"name":"f","function":{"name":"f"}}`)
}

func TestBusyIsTriedAgainWhenItSays(t *testing.T) {
	client, count := answers(t, status(429, "1"), status(503, "0"), function)
	begun := time.Now()
	got, err := client.Function(context.Background(), "f")
	if err != nil || got.Name != "f" || count.Load() != 3 {
		t.Fatal(got, err, count.Load())
	}
	if waited := time.Since(begun); waited < time.Second || waited > 10*time.Second {
		t.Fatalf("waited %s", waited)
	}
}

func TestAnUploadIsSentWholeAgain(t *testing.T) {
	code := bytes.Repeat([]byte("sless"), 100_000)
	client, count := answers(t, status(503, "0"), func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Equal(body, code) || r.ContentLength != int64(len(code)) || r.Header.Get("Authorization") != "Bearer t.o.ken" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		function(w, r)
	})
	if _, err := client.Upload(context.Background(), "f", "application/wasm", code); err != nil || count.Load() != 2 {
		t.Fatal(err, count.Load())
	}
}

func TestWaitingEndsWithTheOperation(t *testing.T) {
	client, _ := answers(t, status(503, "3600"))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := client.Function(ctx, "f")
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 5*time.Second {
		t.Fatal(err, time.Since(begun))
	}
}

func TestWhatMayHaveBeenDoneIsNotDoneTwice(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		connection, _, _ := w.(http.Hijacker).Hijack()
		connection.Close()
	}
	client, count := answers(t, cut, function)
	if _, err := client.Ensure(context.Background()); err == nil || count.Load() != 1 {
		t.Fatal(err, count.Load())
	}
	client, count = answers(t, cut, function)
	if _, err := client.Function(context.Background(), "f"); err != nil || count.Load() != 2 {
		t.Fatal(err, count.Load())
	}
}

func TestNobodyThereIsToldSoon(t *testing.T) {
	server := httptest.NewServer(nil)
	endpoint := server.URL
	server.Close()
	client, err := New(endpoint, "t", "sless-0123456789abcdef", "test")
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if _, err = client.Ensure(context.Background()); err == nil || time.Since(begun) > 5*time.Second {
		t.Fatal(err, time.Since(begun))
	}
}

func TestProblemsAreReadAndOthersNamed(t *testing.T) {
	client, _ := answers(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(422)
		io.WriteString(w, `{"title":"t","detail":"d","code":"invalid","requestId":"r","errors":[{"pointer":"/spec/memoryMb","detail":"0 is out of range"}]}`)
	})
	_, err := client.Function(context.Background(), "f")
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != "invalid" || len(refused.Fields) != 1 || refused.Fields[0].Pointer != "/spec/memoryMb" {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), "request r") {
		t.Fatal(err)
	}
	client, _ = answers(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		io.WriteString(w, "<html>nginx</html>")
	})
	if _, err := client.Function(context.Background(), "f"); !IsNotFound(err) || !strings.Contains(err.Error(), "check `endpoint`") || !strings.Contains(err.Error(), "nginx") {
		t.Fatal(err)
	}
	client, _ = answers(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") })
	if _, err := client.Function(context.Background(), "f"); err == nil || !strings.Contains(err.Error(), "can't read") {
		t.Fatal(err)
	}
}

func TestAListIsReadToItsEnd(t *testing.T) {
	client, count := answers(t,
		func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"items":[{"name":"a"}],"next":"a"}`) },
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("cursor") == "a" {
				io.WriteString(w, `{"items":[{"name":"b"}]}`)
			}
		})
	names, err := client.Secrets(context.Background())
	if err != nil || !names["a"] || !names["b"] || count.Load() != 2 {
		t.Fatal(names, err)
	}
}
