// Writes the Grafana dashboard.
module dashboards

go 1.26

// Grafana's own types of dashboards, with builders and a strict reader.
require github.com/grafana/grafana-foundation-sdk/go v0.0.22
