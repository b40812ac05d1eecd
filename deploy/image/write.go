package main

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// What was written.
type written struct {
	digest  string
	archive string
	// What a registry keeps of the layers, in bytes.
	packed int64
}

// Write makes an image's files in a folder, which it empties first: the OCI layout `oci`, the same as `image.tar`, and the image's `digest`.
func write(image v1.Image, out, name string) (written, error) {
	tag, err := tagOf(name)
	if err != nil {
		return written{}, err
	}
	if err := os.RemoveAll(out); err != nil {
		return written{}, err
	}
	folder := filepath.Join(out, "oci")
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return written{}, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return written{}, err
	}
	// The first is OCI's and holds the tag alone; containerd and docker take the whole name from the second.
	names := map[string]string{"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": name}
	platform := v1.Platform{OS: config.OS, Architecture: config.Architecture}
	if err := path.AppendImage(image, layout.WithAnnotations(names), layout.WithPlatform(platform)); err != nil {
		return written{}, err
	}
	archive := filepath.Join(out, "image.tar")
	docker, err := dockerManifest(image, name)
	if err != nil {
		return written{}, err
	}
	if err := writeArchive(archive, folder, docker, config.Created); err != nil {
		return written{}, err
	}
	digest, err := image.Digest()
	if err != nil {
		return written{}, err
	}
	packed, err := layerSize(image)
	if err != nil {
		return written{}, err
	}
	return written{digest.String(), archive, packed}, os.WriteFile(filepath.Join(out, "digest"), []byte(digest.String()+"\n"), 0o644)
}

// TagOf is what stands behind the colon of an image's name.
func tagOf(name string) (string, error) {
	colon := strings.LastIndex(name, ":")
	if colon < 0 || strings.Contains(name[colon:], "/") || colon == len(name)-1 {
		return "", fmt.Errorf("the image's name has no tag: %q", name)
	}
	return name[colon+1:], nil
}

func layerSize(image v1.Image) (int64, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return 0, err
	}
	var size int64
	for _, layer := range manifest.Layers {
		size += layer.Size
	}
	return size, nil
}

// DockerManifest is the manifest.json by which docker finds the parts of an image in an OCI layout.
func dockerManifest(image v1.Image, name string) ([]byte, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	blob := func(hash v1.Hash) string { return "blobs/" + hash.Algorithm + "/" + hash.Hex }
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blob(manifest.Config.Digest), RepoTags: []string{name}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer.Digest))
	}
	return json.Marshal([]any{entry})
}

// WriteArchive writes an OCI layout and docker's manifest as one archive, in the order of their names and with one time for all.
func writeArchive(path, folder string, docker []byte, created v1.Time) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	archive := tar.NewWriter(file)
	add := func(header tar.Header, contents []byte) error {
		header.ModTime, header.Format, header.Size = created.Time, tar.FormatUSTAR, int64(len(contents))
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		_, err := archive.Write(contents)
		return err
	}
	err = filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == folder {
			return err
		}
		inside, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return add(tar.Header{Typeflag: tar.TypeDir, Name: inside + "/", Mode: 0o755}, nil)
		}
		contents, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return add(tar.Header{Typeflag: tar.TypeReg, Name: inside, Mode: 0o644}, contents)
	})
	if err != nil {
		return err
	}
	if err := add(tar.Header{Typeflag: tar.TypeReg, Name: "manifest.json", Mode: 0o644}, docker); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return file.Close()
}
