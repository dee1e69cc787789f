module {{name}}

go 1.25

require github.com/naeel/sless/guest-sdks/go v0.1.0

require go.bytecodealliance.org/pkg v0.4.0 // indirect

// The library of this version of sless.
replace github.com/naeel/sless/guest-sdks/go => ./sless

replace go.bytecodealliance.org/pkg => ./sless/third_party/bytecodealliance-pkg
