package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const named = "localhost/workloads-controller-manager:1.2.3"

var about = description{arch: runtime.GOARCH, version: "1.2.3", revision: "abc", created: time.Unix(1_700_000_000, 0).UTC()}

// Packed writes the image of the probe and returns the folder.
func packed(t *testing.T) (string, written) {
	t.Helper()
	image, err := pack(staticProbe(t), about)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image")
	result, err := write(image, out, named)
	if err != nil {
		t.Fatal(err)
	}
	return out, result
}

// Only is the one image of a layout.
func only(t *testing.T, folder string) (v1.Image, v1.Descriptor) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d images in the layout", len(manifest.Manifests))
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image, manifest.Manifests[0]
}

func TestTheImageSaysWhatItIsAndWhoRunsIt(t *testing.T) {
	out, result := packed(t)
	image, descriptor := only(t, filepath.Join(out, "oci"))
	if err := validate.Image(image); err != nil {
		t.Fatal(err)
	}
	if descriptor.Digest.String() != result.digest || descriptor.Platform.Architecture != runtime.GOARCH {
		t.Errorf("the layout holds %v %v", descriptor.Digest, descriptor.Platform)
	}
	if descriptor.Annotations["org.opencontainers.image.ref.name"] != "1.2.3" || descriptor.Annotations["io.containerd.image.name"] != named {
		t.Errorf("its names are %v", descriptor.Annotations)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config := file.Config
	if config.User != "65532:65532" || !reflect.DeepEqual(config.Entrypoint, []string{"/workloads-controller-manager"}) || config.Cmd != nil {
		t.Errorf("user %q, entrypoint %q, command %q", config.User, config.Entrypoint, config.Cmd)
	}
	if file.OS != "linux" || file.Architecture != runtime.GOARCH || !file.Created.Equal(about.created) {
		t.Errorf("for %s/%s, of %v", file.OS, file.Architecture, file.Created)
	}
	for label, wanted := range map[string]string{"version": "1.2.3", "revision": "abc", "licenses": "Apache-2.0", "created": "2023-11-14T22:13:20Z"} {
		if got := config.Labels["org.opencontainers.image."+label]; got != wanted {
			t.Errorf("label %s is %q", label, got)
		}
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(manifest.Annotations, config.Labels) {
		t.Errorf("annotated with %v", manifest.Annotations)
	}
}

func TestTheProgramIsTheOnlyFile(t *testing.T) {
	out, _ := packed(t)
	image, _ := only(t, filepath.Join(out, "oci"))
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal(len(layers), err)
	}
	contents, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(contents)
	header, err := archive.Next()
	if err != nil {
		t.Fatal(err)
	}
	if header.Name != "workloads-controller-manager" || header.Mode != 0o555 || header.Uid != 0 || !header.ModTime.Equal(about.created) {
		t.Errorf("%+v", header)
	}
	if file, err := io.ReadAll(archive); err != nil || !bytes.Equal(file, staticProbe(t)) {
		t.Errorf("the program is another one (%v)", err)
	}
	if _, err := archive.Next(); err != io.EOF {
		t.Errorf("more than one file: %v", err)
	}
}

func TestTheArchiveIsDockersAndOCIs(t *testing.T) {
	out, result := packed(t)
	image, err := tarball.ImageFromPath(result.archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	layouts, _ := only(t, filepath.Join(out, "oci"))
	ours, err := layouts.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if docker, err := image.ConfigName(); err != nil || docker != ours {
		t.Errorf("docker reads %v (%v), the layout has %v", docker, err, ours)
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(result.archive) })
	if err != nil || len(manifest) != 1 || !reflect.DeepEqual(manifest[0].RepoTags, []string{named}) {
		t.Errorf("%v %v", manifest, err)
	}
	archive := tar.NewReader(bytes.NewReader(read(t, result.archive)))
	var names []string
	for header, err := archive.Next(); err != io.EOF; header, err = archive.Next() {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(header.Name, "blobs/") {
			names = append(names, header.Name)
		}
	}
	if wanted := []string{"index.json", "oci-layout", "manifest.json"}; !reflect.DeepEqual(names, wanted) {
		t.Errorf("%v", names)
	}
}

func TestTheSameProgramMakesTheSameBytes(t *testing.T) {
	_, one := packed(t)
	_, other := packed(t)
	if one.digest != other.digest || !bytes.Equal(read(t, one.archive), read(t, other.archive)) {
		t.Errorf("%s and %s", one.digest, other.digest)
	}
}

func TestANameWithoutATagIsRefused(t *testing.T) {
	for _, name := range []string{"", "a", "localhost:5000/a", "a:"} {
		if tag, err := tagOf(name); err == nil {
			t.Errorf("%q has the tag %q", name, tag)
		}
	}
}
