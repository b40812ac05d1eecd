// Packs the program as an image without a container engine.
module imagepack

go 1.26.0

// The library below crane, ko and Bazel's rules: images, OCI layouts.
require github.com/google/go-containerregistry v0.22.1

require (
	golang.org/x/net v0.62.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	golang.org/x/sync v0.22.0 // indirect
)
