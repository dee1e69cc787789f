package main

import (
	"testing"

	"github.com/naeel/sless/guest-sdks/go"
)

func TestItGreetsWhomTheQueryNames(t *testing.T) {
	for query, expected := range map[string]string{
		"name=Ada": `{"message":"hello, Ada"}`,
		"":         `{"message":"hello, world"}`,
	} {
		answer := sless.Call(handler, &sless.Request{Path: "/", RawQuery: query})
		if answer.Status != 200 || string(answer.Body) != expected {
			t.Errorf("?%s: %d %s", query, answer.Status, answer.Body)
		}
	}
}

func TestAnEmptyNameIsRefused(t *testing.T) {
	if answer := sless.Call(handler, &sless.Request{Path: "/", RawQuery: "name="}); answer.Status != 400 {
		t.Error(answer.Status)
	}
}
