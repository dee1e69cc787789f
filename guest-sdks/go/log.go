package sless

import (
	"log/slog"
	"os"
	"strings"
)

// startLog makes lines from now on those of a request. LOG_LEVEL is debug, info, warn or error.
func startLog(requestID string) {
	var level slog.Level
	// What is misspelt is as good as not said: a log that is too long is better than none.
	_ = level.UnmarshalText([]byte(os.Getenv("LOG_LEVEL")))
	logger := slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) > 0 {
				return attr
			}
			switch attr.Key {
			case slog.TimeKey:
				return slog.Attr{} // The platform's lines have it.
			case slog.MessageKey:
				attr.Key = "message"
			case slog.LevelKey:
				attr.Value = slog.StringValue(strings.ToLower(attr.Value.String()))
			}
			return attr
		},
	}))
	if requestID != "" {
		logger = logger.With("requestId", requestID)
	}
	slog.SetDefault(logger)
}
