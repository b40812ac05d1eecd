package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestAStaticStrippedProgramIsTaken(t *testing.T) {
	if err := check(staticProbe(t), runtime.GOARCH, limit); err != nil {
		t.Fatal(err)
	}
}

func TestWhatCannotBeAnImagesOnlyFileIsRefused(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	good := staticProbe(t)
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		program []byte
		arch    string
		limit   int
		says    string
	}{
		"dynamic":            {read(t, probe(t, "-C", "strip=symbols")), runtime.GOARCH, limit, "not static"},
		"with symbols":       {read(t, probe(t, "-C", "target-feature=+crt-static")), runtime.GOARCH, limit, "symbol table"},
		"too large":          {good, runtime.GOARCH, len(good) - 1, "more than the"},
		"of another machine": {good, other, limit, "built for"},
		"of no machine":      {good, "sparc", limit, `"sparc"`},
		"no program":         {[]byte("#!/bin/sh\n"), runtime.GOARCH, limit, "not a Linux program"},
		"with a path":        {append(good[:len(good):len(good)], here+"/src/main.rs"...), runtime.GOARCH, limit, "src/main.rs"},
	}
	for name, given := range cases {
		t.Run(name, func(t *testing.T) {
			err := check(given.program, given.arch, given.limit)
			if err == nil || !strings.Contains(err.Error(), given.says) {
				t.Fatalf("%v does not say %q", err, given.says)
			}
		})
	}
}

func TestTheBillNamesEveryCrateInTheProgram(t *testing.T) {
	program := audited(t, `{"packages":[{"name":"ours","version":"1.0.0","root":true},{"name":"kube","version":"5.0.0"},
		{"name":"cc","version":"1.0.0","kind":"build"}]}`)
	cases := map[string]struct {
		program    []byte
		bill, says string
	}{
		"all": {program, `{"bomFormat":"CycloneDX","metadata":{"component":{"name":"ours","version":"1.0.0"}},
			"components":[{"name":"kube","version":"5.0.0"}]}`, ""},
		"another version": {program, `{"bomFormat":"CycloneDX","metadata":{"component":{"name":"ours","version":"1.0.0"}},
			"components":[{"name":"kube","version":"4.0.0"}]}`, "kube 5.0.0 is in the program"},
		"another format": {program, `{"spdxVersion":"SPDX-2.3"}`, "not a CycloneDX"},
		"no list":        {staticProbe(t), `{"bomFormat":"CycloneDX"}`, "cargo auditable"},
	}
	for name, given := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "bill.json")
			if err := os.WriteFile(file, []byte(given.bill), 0o644); err != nil {
				t.Fatal(err)
			}
			err := checkBill(file, given.program)
			if (given.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), given.says) {
				t.Fatalf("%v does not say %q", err, given.says)
			}
		})
	}
}
