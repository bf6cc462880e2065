// How functions print the values that they are called with: as lbtrace's JSON Lines show them.
// test_rust_signatures.py adds the functions, and a main that calls them.
#![allow(dead_code)]

trait Show {
	fn show(&self) -> String;
}

macro_rules! numbers {
	($($number:ty)*) => { $(
		impl Show for $number {
			fn show(&self) -> String { format!("{:?}", self) }
		}
	)* };
}

numbers!(i8 u8 i16 u16 i32 u32 i64 u64 i128 u128 isize usize bool f32 f64 str String);

impl Show for char {
	fn show(&self) -> String { format!("{:?}", self.to_string()) }
}

impl<T: Show + ?Sized> Show for &T {
	fn show(&self) -> String { (**self).show() }
}

impl<T: Show> Show for [T] {
	fn show(&self) -> String {
		let parts: Vec<_> = self.iter().map(|part| part.show()).collect();
		format!("[{}]", parts.join(", "))
	}
}

impl<T: Show> Show for Vec<T> {
	fn show(&self) -> String { self[..].show() }
}

impl<T: Show, const N: usize> Show for [T; N] {
	fn show(&self) -> String { self[..].show() }
}

impl<A: Show, B: Show> Show for (A, B) {
	fn show(&self) -> String { format!("[{}, {}]", self.0.show(), self.1.show()) }
}

impl<A: Show, B: Show, C: Show> Show for (A, B, C) {
	fn show(&self) -> String {
		format!("[{}, {}, {}]", self.0.show(), self.1.show(), self.2.show())
	}
}

fn variant(name: &str, value: Option<String>) -> String {
	match value {
		Some(text) => format!("{{{:?}: {}}}", name, text),
		None => format!("{:?}", name),
	}
}

impl<T: Show> Show for Option<T> {
	fn show(&self) -> String {
		match self {
			Some(value) => variant("Some", Some(value.show())),
			None => variant("None", None),
		}
	}
}

impl Show for () {
	fn show(&self) -> String { "{}".to_string() }
}

impl<T: Show, E: Show> Show for Result<T, E> {
	fn show(&self) -> String {
		match self {
			Ok(value) => variant("Ok", Some(value.show())),
			Err(value) => variant("Err", Some(value.show())),
		}
	}
}

macro_rules! structs {
	($($name:ident { $($member:ident: $type:ty),* })*) => { $(
		struct $name { $($member: $type),* }

		impl Show for $name {
			fn show(&self) -> String {
				let parts = [$(format!("\"{}\": {}", stringify!($member), self.$member.show())),*];
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

macro_rules! logged_as_structs {
	($($name:ident { $($member:ident),* })*) => { $(
		impl Show for $name {
			fn show(&self) -> String {
				let parts = [$(format!("\"{}\": {}", stringify!($member), { self.$member }.show())),*];
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

logged_as_structs! { Real { a } Wide { a } Word { a } Clear { a } Packed { a, b } Aligned { a } }

struct Meters(f64);

impl Show for Meters {
	fn show(&self) -> String { format!("[{:?}]", self.0) }
}

struct Wrapped(u64);

impl Show for Wrapped {
	fn show(&self) -> String { format!("[{}]", self.0) }
}

enum Color { Red, Green, Blue }

impl Show for Color {
	fn show(&self) -> String {
		variant(match self { Color::Red => "Red", Color::Green => "Green", Color::Blue => "Blue" }, None)
	}
}

enum Shape { Dot, Circle(f64), Rect { w: u32, h: u32 } }

impl Show for Shape {
	fn show(&self) -> String {
		match self {
			Shape::Dot => variant("Dot", None),
			Shape::Circle(radius) => variant("Circle", Some(radius.show())),
			Shape::Rect { w, h } => variant("Rect", Some(format!("{{\"w\": {}, \"h\": {}}}", w, h))),
		}
	}
}
