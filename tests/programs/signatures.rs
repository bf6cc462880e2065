// How functions print the values that they are called with: as lbtrace's JSON Lines show them.
// test_rust_signatures.py adds the functions, and a main that calls them.
#![allow(dead_code)]

trait Told {
	fn told(&self) -> String;
}

macro_rules! numbers {
	($($number:ty)*) => { $(
		impl Told for $number {
			fn told(&self) -> String { format!("{:?}", self) }
		}
	)* };
}

numbers!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128 isize usize bool f32 f64 str String);

impl Told for char {
	fn told(&self) -> String { format!("{:?}", self.to_string()) }
}

impl<T: Told + ?Sized> Told for &T {
	fn told(&self) -> String { (**self).told() }
}

impl<T: Told> Told for [T] {
	fn told(&self) -> String {
		let parts: Vec<_> = self.iter().map(|part| part.told()).collect();
		format!("[{}]", parts.join(", "))
	}
}

impl<T: Told> Told for Vec<T> {
	fn told(&self) -> String { self[..].told() }
}

impl<T: Told, const N: usize> Told for [T; N] {
	fn told(&self) -> String { self[..].told() }
}

impl<A: Told, B: Told> Told for (A, B) {
	fn told(&self) -> String { format!("[{}, {}]", self.0.told(), self.1.told()) }
}

impl<A: Told, B: Told, C: Told> Told for (A, B, C) {
	fn told(&self) -> String {
		format!("[{}, {}, {}]", self.0.told(), self.1.told(), self.2.told())
	}
}

fn variant(name: &str, value: Option<String>) -> String {
	match value {
		Some(text) => format!("{{{:?}: {}}}", name, text),
		None => format!("{:?}", name),
	}
}

impl<T: Told> Told for Option<T> {
	fn told(&self) -> String {
		match self {
			Some(value) => variant("Some", Some(value.told())),
			None => variant("None", None),
		}
	}
}

impl<T: Told, E: Told> Told for Result<T, E> {
	fn told(&self) -> String {
		match self {
			Ok(value) => variant("Ok", Some(value.told())),
			Err(value) => variant("Err", Some(value.told())),
		}
	}
}

macro_rules! structs {
	($($name:ident { $($member:ident: $type:ty),* })*) => { $(
		struct $name { $($member: $type),* }

		impl Told for $name {
			fn told(&self) -> String {
				let parts = [$(format!("\"{}\": {}", stringify!($member), self.$member.told())),*];
				format!("{{{}}}", parts.join(", "))
			}
		}
	)* };
}

structs! {
	Pair { x: i32, y: i32 }
	Mixed { d: f64, l: i64 }
	Small { c: i8, s: u16 }
	Large { v: [i64; 2], w: i32 }
	Reals { a: f64, b: f64 }
	Triple { x: f32, y: f32, z: f32 }
	Named { name: String, age: u8 }
}

macro_rules! told_as_structs {
	($($name:ident { $($member:ident),* })*) => { $(
		impl Told for $name {
			fn told(&self) -> String {
				let parts = [$(format!("\"{}\": {}", stringify!($member), { self.$member }.told())),*];
				format!("{{{}}}", parts.join(", "))
			}
		}
	)* };
}

// What rustc does not take for the number that it holds, and what it does.
#[repr(C)] struct Real { a: f64 }
#[repr(C)] struct Wide { a: i128 }
#[repr(C)] struct Word { a: u32 }
#[repr(transparent)] struct Clear { a: f32 }
#[repr(C, packed)] struct Packed { a: u8, b: u32 }
#[repr(align(16))] struct Aligned { a: u64 }

told_as_structs! { Real { a } Wide { a } Word { a } Clear { a } Packed { a, b } Aligned { a } }

struct Meters(f64);

impl Told for Meters {
	fn told(&self) -> String { format!("[{:?}]", self.0) }
}

struct Wrapped(u64);

impl Told for Wrapped {
	fn told(&self) -> String { format!("[{}]", self.0) }
}

enum Color { Red, Green, Blue }

impl Told for Color {
	fn told(&self) -> String {
		variant(match self { Color::Red => "Red", Color::Green => "Green", Color::Blue => "Blue" }, None)
	}
}

enum Shape { Dot, Circle(f64), Rect { w: u32, h: u32 } }

impl Told for Shape {
	fn told(&self) -> String {
		match self {
			Shape::Dot => variant("Dot", None),
			Shape::Circle(radius) => variant("Circle", Some(radius.told())),
			Shape::Rect { w, h } => variant("Rect", Some(format!("{{\"w\": {}, \"h\": {}}}", w, h))),
		}
	}
}
