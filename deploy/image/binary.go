package main

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Check says why a program cannot be an image's only file.
func check(program []byte, arch string, limit int) error {
	machine, known := machines[arch]
	if !known {
		return fmt.Errorf("no such architecture: %q", arch)
	}
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("not a Linux program: %w", err)
	}
	if file.Machine != machine {
		return fmt.Errorf("built for %s, not for %s", file.Machine, arch)
	}
	for _, header := range file.Progs {
		if header.Type == elf.PT_INTERP {
			return errors.New("not static: it asks for a dynamic linker, which an image without anything else does not have")
		}
	}
	if file.Section(".symtab") != nil {
		return errors.New("not stripped: it has a symbol table")
	}
	if len(program) > limit {
		return fmt.Errorf("%d bytes are more than the %d that are allowed", len(program), limit)
	}
	return checkPaths(program)
}

// CheckPaths finds what of the machine that built the program is in it: other machines would build other bytes.
func checkPaths(program []byte) error {
	here, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	for _, path := range []string{here + "/", filepath.Join(home, ".cargo") + "/", filepath.Join(home, ".rustup") + "/"} {
		if at := bytes.Index(program, []byte(path)); at >= 0 {
			return fmt.Errorf("a path of this machine is in it: %q", program[at:min(at+80, len(program))])
		}
	}
	return nil
}

// A crate as cargo-auditable writes it into the program.
type crate struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Root    bool   `json:"root"`
	Kind    string `json:"kind"`
}

// Crates reads what cargo-auditable has written into a program: what it was built from.
func crates(program []byte) ([]crate, error) {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	section := file.Section(".dep-v0")
	if section == nil {
		return nil, errors.New("no list of crates in the program: build it with cargo auditable")
	}
	reader, err := zlib.NewReader(section.Open())
	if err != nil {
		return nil, fmt.Errorf("reading the list of crates in the program: %w", err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("reading the list of crates in the program: %w", err)
	}
	var list struct {
		Packages []crate `json:"packages"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading the list of crates in the program: %w", err)
	}
	return list.Packages, nil
}

// CheckBill says what of the program is missing in its bill of materials.
func checkBill(path string, program []byte) error {
	list, err := crates(program)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	type component struct{ Name, Version string }
	var bill struct {
		Format     string `json:"bomFormat"`
		Components []component
		Metadata   struct{ Component component }
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		return err
	}
	if bill.Format != "CycloneDX" {
		return errors.New("not a CycloneDX bill of materials")
	}
	listed := map[component]bool{bill.Metadata.Component: true}
	for _, one := range bill.Components {
		listed[one] = true
	}
	for _, one := range list {
		if one.Kind != "build" && !listed[component{one.Name, one.Version}] {
			return fmt.Errorf("%s %s is in the program and not in the bill", one.Name, one.Version)
		}
	}
	return nil
}
