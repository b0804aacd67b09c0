"""Generated Rust for the compiler to work on."""


def rust_source(modules):
    """A library that gives each phase of the compiler something to do, the same every time."""
    parts = ["#![allow(dead_code)]\nuse std::collections::{BTreeMap, HashMap};\n"]
    for number in range(modules):
        parts.append(f"""
pub mod part{number} {{
    use super::*;
    #[derive(Clone, Debug, PartialEq, PartialOrd, Default)]
    pub struct Row {{ pub id: u64, pub name: String, pub weights: Vec<f64>, pub tag: Option<i32> }}
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Kind {{ Small(u8), Medium(u32), Large {{ low: u64, high: u64 }} }}
    pub trait Visit<T> {{ fn visit(&mut self, item: &T) -> Result<usize, String>; }}
    pub struct Total {{ sum: f64, seen: HashMap<Kind, Vec<Row>> }}
    impl Visit<Row> for Total {{
        fn visit(&mut self, item: &Row) -> Result<usize, String> {{
            let kind = match item.id % {3 + number % 5} {{
                0 => Kind::Small(item.id as u8),
                1 => Kind::Medium(item.id as u32),
                _ => Kind::Large {{ low: item.id, high: item.id.rotate_left({number % 63}) }},
            }};
            let heavy = item.weights.iter().map(|w| w * {number}.5).filter(|w| *w > 1.0);
            self.sum += heavy.sum::<f64>();
            self.seen.entry(kind).or_default().push(item.clone());
            if self.sum.is_nan() {{ return Err(format!("{{}} of {{:?}}", item.name, kind)); }}
            Ok(self.seen.len())
        }}
    }}
    pub fn sorted<T: Ord + Clone, K: Ord + Clone>(items: &[(K, T)]) -> BTreeMap<K, Vec<T>> {{
        let mut groups: BTreeMap<K, Vec<T>> = BTreeMap::new();
        for (key, value) in items {{ groups.entry(key.clone()).or_default().push(value.clone()); }}
        for values in groups.values_mut() {{ values.sort(); values.dedup(); }}
        groups
    }}
    pub fn run(rows: &[Row]) -> Result<String, String> {{
        let mut total = Total {{ sum: 0.0, seen: HashMap::new() }};
        let mut steps = Vec::new();
        for row in rows {{ steps.push((row.id ^ {number}, total.visit(row)?)); }}
        let groups = sorted(&steps);
        let names = sorted(&rows.iter().map(|r| (r.tag, r.name.clone())).collect::<Vec<_>>());
        let mut text: Vec<String> = groups.iter().map(|(k, v)| format!("{{k}}={{v:?}}")).collect();
        text.extend(names.into_iter().map(|(k, v)| format!("{{k:?}}: {{}}", v.join("+"))));
        text.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        Ok(text.join(","))
    }}
}}
""")
    return "".join(parts)
