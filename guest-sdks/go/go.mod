module github.com/naeel/sless/guest-sdks/go

go 1.25

require go.bytecodealliance.org/pkg v0.4.0

replace go.bytecodealliance.org/pkg => ./third_party/bytecodealliance-pkg
