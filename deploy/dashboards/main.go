// Command dashboards prints the Grafana dashboard that panels.go describes.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

const height = 7

func main() {
	text, err := generate()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
	os.Stdout.Write(text)
}

// Generate makes the dashboard's file.
func generate() ([]byte, error) {
	builder := dashboard.NewDashboardBuilder("Kubernetes / Workloads controller manager").
		Uid("workloads-controller-manager").
		Description("The Deployment, ReplicaSet and StatefulSet controllers of the workloads controller manager.").
		Tags([]string{"kubernetes"}).
		Readonly().
		Refresh("30s").
		Time("now-1h", "now").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(variable("cluster", `label_values(workloads_controller_manager_build_info, cluster)`)).
		WithVariable(variable("job", `label_values(workloads_controller_manager_build_info{cluster=~"$cluster"}, job)`)).
		WithVariable(variable("instance", `label_values(workloads_controller_manager_build_info{cluster=~"$cluster", job=~"$job"}, instance)`))
	id := uint32(0)
	for _, row := range rows {
		if row.title != "" {
			id++
			builder.WithRow(dashboard.NewRowBuilder(row.title).Id(id))
		}
		for _, panel := range row.panels {
			id++
			builder.WithPanel(panel.build(id))
		}
	}
	made, err := builder.Build()
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(made, "", "  ")
	return append(text, '\n'), err
}

// Variable chooses values of a label; all of them, and those that lack it, at first.
func variable(name, query string) cog.Builder[dashboard.VariableModel] {
	return dashboard.NewQueryVariableBuilder(name).
		Datasource(datasource()).
		Query(dashboard.StringOrMap{String: &query}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).
		IncludeAll(true).
		AllValue(".*").
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

func datasource() common.DataSourceRef {
	kind, uid := "prometheus", "${datasource}"
	return common.DataSourceRef{Type: &kind, Uid: &uid}
}

func (p panel) build(id uint32) cog.Builder[dashboard.Panel] {
	if p.number {
		built := stat.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(datasource()).
			Unit(p.unit).Height(4).Span(p.width).NoValue("–").GraphMode(common.BigValueGraphModeNone).ColorMode(common.BigValueColorModeNone).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
		if len(p.queries) == 1 && p.queries[0].legend != "" {
			built.TextMode(common.BigValueTextModeName)
		}
		for i, query := range p.queries {
			built.WithTarget(query.build(i).Instant())
		}
		return built
	}
	built := timeseries.NewPanelBuilder().Id(id).Title(p.title).Description(p.about).Datasource(datasource()).
		Unit(p.unit).Height(height).Span(p.width).Min(0).LineWidth(1).FillOpacity(10).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom).Calcs([]string{})).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.stacked {
		built.Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal))
	}
	for i, query := range p.queries {
		built.WithTarget(query.build(i).Range())
	}
	return built
}

func (q query) build(i int) *prometheus.DataqueryBuilder {
	expr := strings.ReplaceAll(q.expr, "SELECTED", selected)
	return prometheus.NewDataqueryBuilder().Datasource(datasource()).RefId(string(rune('A' + i))).Expr(expr).LegendFormat(q.legend)
}
