package main

import (
	"bytes"
	"compress/zlib"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Probe compiles a small program as build.sh compiles ours, or with other flags, and returns its file.
func probe(t *testing.T, flags ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "probe")
	arguments := append([]string{"-O", "-o", file, "testdata/probe.rs"}, flags...)
	command := exec.Command("rustc", arguments...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("rustc %v: %v\n%s", arguments, err, out)
	}
	return file
}

var (
	static     = []string{"-C", "target-feature=+crt-static", "-C", "strip=symbols"}
	staticOnce sync.Once
	staticFile []byte
)

// StaticProbe is the probe as a static, stripped program.
func staticProbe(t *testing.T) []byte {
	t.Helper()
	staticOnce.Do(func() { staticFile = read(t, probe(t, static...)) })
	if staticFile == nil {
		t.Fatal("the probe was not built")
	}
	return staticFile
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// Audited is the static probe with a list of crates in it, where cargo-auditable writes its own.
func audited(t *testing.T, crates string) []byte {
	t.Helper()
	folder := t.TempDir()
	var packed bytes.Buffer
	writer := zlib.NewWriter(&packed)
	if _, err := writer.Write([]byte(crates)); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	program, section := filepath.Join(folder, "program"), filepath.Join(folder, "section")
	for path, contents := range map[string][]byte{program: staticProbe(t), section: packed.Bytes()} {
		if err := os.WriteFile(path, contents, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("objcopy", "--add-section", ".dep-v0="+section, program)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("objcopy: %v\n%s", err, out)
	}
	return read(t, program)
}
