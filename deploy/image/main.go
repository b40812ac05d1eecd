// Command image packs one static program as a container image: an OCI layout, and the same as an archive that ctr, docker and kind load.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Limit is what the program, and with it the image, may take unpacked, in bytes.
const limit = 15_000_000

func main() {
	binary := flag.String("binary", "", "the program: one static file")
	sbom := flag.String("sbom", "", "its bill of materials, in CycloneDX's JSON")
	out := flag.String("out", "", "the folder to write to; what is in it goes")
	name := flag.String("name", "", "the image's name, with a tag")
	var about description
	flag.StringVar(&about.arch, "arch", "amd64", "the program's architecture, amd64 or arm64")
	flag.StringVar(&about.version, "version", "", "the program's release")
	flag.StringVar(&about.revision, "revision", "", "the commit it was built from")
	epoch := flag.Int64("created", 0, "when it was made, in seconds since 1970")
	flag.Parse()
	about.created = time.Unix(*epoch, 0).UTC()
	if err := run(*binary, *sbom, *out, *name, about); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// Run checks the program, writes everything that is made of it, and prints what came of it.
func run(binary, sbom, out, name string, about description) error {
	if flag.NArg() > 0 || binary == "" || sbom == "" || out == "" || name == "" || about.version == "" {
		return fmt.Errorf("--binary, --sbom, --out, --name and --version are needed, and nothing beside flags")
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	if err := check(program, about.arch, limit); err != nil {
		return fmt.Errorf("%s: %w", binary, err)
	}
	if err := checkBill(sbom, program); err != nil {
		return fmt.Errorf("%s: %w", sbom, err)
	}
	image, err := pack(program, about)
	if err != nil {
		return err
	}
	written, err := write(image, out, name)
	if err != nil {
		return err
	}
	bill, err := os.ReadFile(sbom)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "sbom.cdx.json"), bill, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s for %s\n  digest    %s\n  unpacked  %.1f MB of at most %.1f MB\n  packed    %.1f MB\n  archive   %s\n",
		name, about.arch, written.digest, float64(len(program))/1e6, float64(limit)/1e6, float64(written.packed)/1e6, written.archive)
	return nil
}
