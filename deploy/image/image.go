package main

import (
	"archive/tar"
	"bytes"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	program = "workloads-controller-manager"
	// A number, since runAsNonRoot cannot tell who a name is; the one of the distroless images.
	user = "65532:65532"
)

// What an image says of itself.
type description struct {
	arch, version, revision string
	created                 time.Time
}

func (d description) labels() map[string]string {
	const prefix = "org.opencontainers.image."
	labels := map[string]string{
		prefix + "title":       program,
		prefix + "description": "Kubernetes' Deployment, ReplicaSet and StatefulSet controllers in one small binary",
		prefix + "version":     d.version,
		prefix + "licenses":    "Apache-2.0",
		prefix + "created":     d.created.Format(time.RFC3339),
	}
	if d.revision != "" {
		labels[prefix+"revision"] = d.revision
	}
	return labels
}

// Pack makes an image of one file. The same file and description always make the same image.
func pack(file []byte, about description) (v1.Image, error) {
	contents, err := layer(file, about.created)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:     contents,
		MediaType: types.OCILayer,
		History:   v1.History{Created: v1.Time{Time: about.created}, CreatedBy: "COPY " + program + " /"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", about.arch
	config.Created = v1.Time{Time: about.created}
	config.Config = v1.Config{
		User:         user,
		Entrypoint:   []string{"/" + program},
		WorkingDir:   "/",
		ExposedPorts: map[string]struct{}{"10257/tcp": {}},
		Labels:       about.labels(),
	}
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, about.labels()).(v1.Image), nil
}

// Layer is a layer with the program in its root, readable by everyone and writable by nobody.
func layer(file []byte, created time.Time) (v1.Layer, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: program, Mode: 0o555, Size: int64(len(file)), ModTime: created, Format: tar.FormatUSTAR}
	if err := writer.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := writer.Write(file); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9))
}
