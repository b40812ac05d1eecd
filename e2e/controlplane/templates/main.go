// Command templates says what upstream's types say about pod templates, and compares templates as upstream does.
//
//	templates schema     prints the table of fields as Rust: controllers/model/src/normal_form/schema.rs
//	templates compare    reads lines of [template, template] and prints for each whether the two are equal
//	templates revisions  reads lines of [patch, template] and prints for each what becomes of it, see revisions.go
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
		err = answer(compare)
	case "revisions":
		err = answer(revisions)
	default:
		err = fmt.Errorf("usage: templates schema|compare|revisions")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// answer reads pairs, one in a line, and prints an answer to each.
func answer(question func(pair [2]json.RawMessage) (any, error)) error {
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
		answer, err := question(pair)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		fmt.Fprintf(answers, "%s\n", text)
	}
}

func compare(pair [2]json.RawMessage) (any, error) {
	a, err := template(pair[0])
	if err != nil {
		return nil, fmt.Errorf("the first template: %w", err)
	}
	b, err := template(pair[1])
	if err != nil {
		return nil, fmt.Errorf("the second template: %w", err)
	}
	return util.EqualIgnoreHash(a, b), nil
}

// template reads as API objects are read: encoding/json would also take names in another case.
func template(text []byte) (*v1.PodTemplateSpec, error) {
	template := &v1.PodTemplateSpec{}
	return template, kjson.UnmarshalCaseSensitivePreserveInts(text, template)
}
