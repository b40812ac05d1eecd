package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const file = "workloads-controller-manager.json"

func TestTheFileIsWhatIsGenerated(t *testing.T) {
	made, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, there) {
		t.Errorf("%s is not what panels.go describes: make dashboards writes it", file)
	}
}

// Grafana's own types read it, and refuse what they do not know.
func TestTheFileIsADashboard(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if found := problems(text); found != "" {
		t.Error(found)
	}
	for _, name := range []string{"refresh", "gridPos", "expr", "lineWidth"} {
		misspelt := strings.Replace(string(text), `"`+name+`"`, `"mis`+name+`"`, 1)
		if problems([]byte(misspelt)) == "" {
			t.Errorf("a field mis%s, which dashboards do not have, is taken", name)
		}
	}
	var read dashboard.Dashboard
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if found := said(read.Validate()); found != "" {
		t.Error(found)
	}
	checkPanels(t, read)
}

// Problems is what a strict reader says of a dashboard. That of the whole leaves out panels, so they are read one by one, too.
func problems(text []byte) string {
	found := said(new(dashboard.Dashboard).UnmarshalJSONStrict(text))
	var parts struct{ Panels []json.RawMessage }
	if err := json.Unmarshal(text, &parts); err != nil {
		return err.Error()
	}
	for _, part := range parts.Panels {
		var kind struct{ Type string }
		if err := json.Unmarshal(part, &kind); err != nil {
			return err.Error()
		}
		if kind.Type == "row" {
			found += said(new(dashboard.RowPanel).UnmarshalJSONStrict(part))
		} else {
			found += said(new(dashboard.Panel).UnmarshalJSONStrict(part))
		}
	}
	return found
}

// Said is what an error says. The library returns lists of errors, empty ones too.
func said(err error) string {
	var list cog.BuildErrors
	if err == nil || errors.As(err, &list) && len(list) == 0 {
		return ""
	}
	return err.Error()
}

// What the schema does not say: ids are unique, panels fill their rows without overlapping, and every query can be told apart.
func checkPanels(t *testing.T, read dashboard.Dashboard) {
	ids, taken := map[uint32]string{}, map[[2]uint32]string{}
	for _, either := range read.Panels {
		if row := either.RowPanel; row != nil {
			ids[row.Id] = *row.Title
			continue
		}
		panel := either.Panel
		if other, there := ids[*panel.Id]; there {
			t.Errorf("%s has the id of %s", *panel.Title, other)
		}
		ids[*panel.Id] = *panel.Title
		place := panel.GridPos
		if place.X+place.W > 24 {
			t.Errorf("%s is not within the 24 columns", *panel.Title)
		}
		for x := place.X; x < place.X+place.W; x++ {
			for y := place.Y; y < place.Y+place.H; y++ {
				if other, there := taken[[2]uint32{x, y}]; there {
					t.Fatalf("%s lies on %s", *panel.Title, other)
				}
				taken[[2]uint32{x, y}] = *panel.Title
			}
		}
		if len(panel.Targets) == 0 {
			t.Errorf("%s asks nothing", *panel.Title)
		}
	}
}

func TestEveryRowIsFull(t *testing.T) {
	for _, row := range rows {
		var width uint32
		for _, panel := range row.panels {
			width += panel.width
		}
		if width%24 != 0 {
			t.Errorf("the row %q is %d wide", row.title, width)
		}
	}
}
