package main

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Types that decode themselves, and are compared by functions of their own or field by field.
var leaves = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():  "Quantity",
	reflect.TypeFor[metav1.Time]():        "Time",
	reflect.TypeFor[metav1.FieldsV1]():    "Raw",
	reflect.TypeFor[intstr.IntOrString](): "IntOrString",
}

const lineWidth = 140

type schema struct {
	// Struct types by the name of their table, which must be one type's only.
	types map[string]reflect.Type
	text  map[string]string
}

func printSchema(out io.Writer) error {
	release, err := release()
	if err != nil {
		return err
	}
	s := schema{types: map[string]reflect.Type{}, text: map[string]string{}}
	if _, err := s.table(reflect.TypeFor[v1.PodTemplateSpec]()); err != nil {
		return err
	}
	fmt.Fprintf(out, "//! The types below `PodTemplateSpec` in Kubernetes %s.\n", release)
	fmt.Fprint(out, "//!\n//! Written by `templates schema` (e2e/controlplane/templates); a test of e2e compares.\n\n")
	fmt.Fprint(out, "use super::kind::Fields;\nuse super::kind::Kind::{Boolean, IntOrString, Integer, List, Map, Pointer, Quantity, Raw, Struct, Text, Time};\n\n")
	for _, name := range slices.Sorted(maps.Keys(s.text)) {
		fmt.Fprint(out, s.text[name])
	}
	return nil
}

// release is that of the k8s.io/kubernetes this program was built with.
func release() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", fmt.Errorf("the program does not say what it was built of")
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return strings.TrimPrefix(module.Version, "v"), nil
		}
	}
	return "", fmt.Errorf("built without k8s.io/kubernetes")
}

// table makes the table of a struct type and of all types below it, and returns its name.
func (s *schema) table(t reflect.Type) (string, error) {
	name := upperSnake(t.Name())
	if known, ok := s.types[name]; ok {
		if known != t {
			return "", fmt.Errorf("%v and %v would share the table %s", known, t, name)
		}
		return name, nil
	}
	s.types[name] = t
	fields, printed := map[string]string{}, []string{}
	if err := s.fields(t, fields, &printed); err != nil {
		return "", fmt.Errorf("%v: %w", t, err)
	}
	s.text[name] = format(name, fields, printed)
	return name, nil
}

// fields collects the JSON fields of a struct type, those of embedded types included, as encoding/json sees them, and the names of those
// that are printed even if there is nothing in them.
func (s *schema) fields(t reflect.Type, fields map[string]string, printed *[]string) error {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" && options == "":
			continue
		case !field.IsExported():
			return fmt.Errorf("field %s is not exported: it cannot be compared", field.Name)
		case slices.Contains(strings.Split(options, ","), "string"):
			return fmt.Errorf("field %s: numbers as strings are not provided for", field.Name)
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			if err := s.fields(field.Type, fields, printed); err != nil {
				return err
			}
			continue
		case name == "":
			return fmt.Errorf("field %s has no name in JSON", field.Name)
		case fields[name] != "":
			return fmt.Errorf("two fields are called %s", name)
		}
		kind, err := s.kind(field.Type)
		if err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
		fields[name] = kind
		if isPrinted(field.Type, strings.Split(options, ",")) {
			*printed = append(*printed, name)
		}
	}
	return nil
}

// isPrinted says whether encoding/json prints a field that has its zero value: a struct is never empty.
func isPrinted(t reflect.Type, options []string) bool {
	return !slices.Contains(options, "omitzero") && (!slices.Contains(options, "omitempty") || t.Kind() == reflect.Struct)
}

func (s *schema) kind(t reflect.Type) (string, error) {
	if leaf, ok := leaves[t]; ok {
		return leaf, nil
	}
	if decodesItself(t) {
		return "", fmt.Errorf("%v decodes itself, and nothing is known about how", t)
	}
	wrap := ""
	switch t.Kind() {
	case reflect.String:
		return "Text", nil
	case reflect.Bool:
		return "Boolean", nil
	case reflect.Int32, reflect.Int64:
		return "Integer", nil
	case reflect.Struct:
		name, err := s.table(t)
		return "Struct(&" + name + ")", err
	case reflect.Pointer:
		wrap = "Pointer"
	case reflect.Slice:
		// encoding/json reads bytes from base64.
		if t.Elem().Kind() != reflect.Uint8 {
			wrap = "List"
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String && !decodesItself(t.Key()) {
			wrap = "Map"
		}
	}
	if wrap == "" {
		return "", fmt.Errorf("%v is not provided for", t)
	}
	kind, err := s.kind(t.Elem())
	return wrap + "(&" + kind + ")", err
}

func decodesItself(t reflect.Type) bool {
	for _, method := range []string{"UnmarshalJSON", "UnmarshalText"} {
		if _, ok := reflect.PointerTo(t).MethodByName(method); ok {
			return true
		}
	}
	return false
}

// format writes a table in lines of limited width.
func format(name string, fields map[string]string, printed []string) string {
	var entries []string
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		entries = append(entries, fmt.Sprintf("(%q, %s)", field, fields[field]))
	}
	start, end := fmt.Sprintf("pub(super) static %s: Fields = Fields(&[", name), "], &[]);\n"
	if len(printed) > 0 {
		slices.Sort(printed)
		end = fmt.Sprintf("], &[\"%s\"]);\n", strings.Join(printed, "\", \""))
	}
	if line := start + strings.Join(entries, ", ") + end; len(line) <= lineWidth {
		return line
	}
	text, line := start, "\n   "
	for _, entry := range entries {
		if len(line)+len(entry)+2 > lineWidth {
			text += line
			line = "\n   "
		}
		line += " " + entry + ","
	}
	return text + line + "\n" + end
}

// upperSnake turns PodTemplateSpec into POD_TEMPLATE_SPEC and AWSVolume into AWS_VOLUME.
func upperSnake(name string) string {
	var snake strings.Builder
	letters := []rune(name)
	for i, letter := range letters {
		after := i > 0 && unicode.IsUpper(letter)
		if after && (!unicode.IsUpper(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])) {
			snake.WriteByte('_')
		}
		snake.WriteRune(unicode.ToUpper(letter))
	}
	return snake.String()
}
