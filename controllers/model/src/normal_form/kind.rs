//! What a value is read as.

/// The Go type behind a JSON value, as far as comparing goes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A string by value: "" equals absent.
    Text,
    /// A number by value: 0 equals absent.
    Integer,
    /// A boolean by value: false equals absent.
    Boolean,
    /// `resource.Quantity`: compared by its amount, whatever its spelling.
    Quantity,
    /// `metav1.Time`: compared as an instant.
    Time,
    /// `intstr.IntOrString`: 80 and "80" differ.
    IntOrString,
    /// `metav1.FieldsV1`: compared byte by byte.
    Raw,
    /// A struct by value: equals absent where all its fields do.
    Struct(&'static Fields),
    /// Null equals absent; whatever else is there does not.
    Pointer(&'static Kind),
    /// A slice: empty equals absent, and the order counts.
    List(&'static Kind),
    /// A map with strings for keys: empty equals absent, an entry with an empty value does not.
    Map(&'static Kind),
}

/// The fields of a struct type, by their names in JSON, and the names of those that Go prints even if there is nothing in them.
#[derive(Debug)]
pub struct Fields(pub(super) &'static [(&'static str, Kind)], pub(super) &'static [&'static str]);

impl Fields {
    /// In the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        self.0.iter().copied()
    }

    /// The names of those that Go's `encoding/json` prints in any case: they are not `omitempty`, or are structs, which are never empty.
    pub(crate) fn printed(&self) -> &'static [&'static str] {
        self.1
    }

    pub(crate) fn get(&self, name: &str) -> Option<Kind> {
        let at = self.0.binary_search_by_key(&name, |(name, _)| name).ok()?;
        self.0.get(at).map(|(_, kind)| *kind)
    }
}
