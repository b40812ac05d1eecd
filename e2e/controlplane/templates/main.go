// Command templates says what upstream's types say about pod templates, and compares templates as upstream does.
//
//	templates schema     prints the table of fields as Rust: controllers/model/src/normal_form/schema.rs
//	templates compare    reads lines of [template, template] and prints for each whether the two are equal
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/controller/deployment/util"
	kjson "sigs.k8s.io/json"
)

func main() {
	mode := ""
	if len(os.Args) == 2 {
		mode = os.Args[1]
	}
	var err error
	switch mode {
	case "schema":
		err = printSchema(os.Stdout)
	case "compare":
		err = compare()
	default:
		err = fmt.Errorf("usage: templates schema|compare")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compare() error {
	lines := bufio.NewReader(os.Stdin)
	answers := bufio.NewWriter(os.Stdout)
	defer answers.Flush()
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 {
			return nil
		}
		var pair [2]json.RawMessage
		if err = json.Unmarshal(line, &pair); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		var templates [2]v1.PodTemplateSpec
		for i := range pair {
			// The decoder of API objects: encoding/json would also take names in another case.
			if err := kjson.UnmarshalCaseSensitivePreserveInts(pair[i], &templates[i]); err != nil {
				return fmt.Errorf("line %d, template %d: %w", n, i, err)
			}
		}
		fmt.Fprintln(answers, util.EqualIgnoreHash(&templates[0], &templates[1]))
	}
}
