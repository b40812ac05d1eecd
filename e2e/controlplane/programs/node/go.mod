// Marks the module's root. What is built is pinned per Kubernetes release in versions/ and chosen with -modfile.
module node

go 1.24
