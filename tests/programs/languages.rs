include!("black_box.rs");
#[derive(Debug, Clone, Copy)] #[repr(u8)] pub enum Color { Red = 1, Blue = 4 }
pub struct Point { pub x: i32, pub y: i64, pub z: i64 }
#[inline(never)] #[no_mangle] pub fn traced_str(s: &str, n: i32) -> usize { black_box(s).len() + n as usize }
#[inline(never)] #[no_mangle] pub fn traced_string(s: String, c: char) -> usize { black_box(&s).len() + c as usize }
#[inline(never)] #[no_mangle] pub fn traced_bytes(s: &[u8], c: Color, b: bool) -> u8 { black_box(s)[0] + c as u8 + b as u8 }
#[inline(never)] #[no_mangle] pub fn traced_point(p: Point, q: &Point) -> i64 { black_box(&p).y + q.z + p.x as i64}
#[inline(never)] #[no_mangle] pub fn traced_opt(p: Option<&Point>, q: Option<u32>) -> Option<u32> { black_box(p); black_box(q) }
#[inline(never)] #[no_mangle] pub fn traced_give(n: usize) -> String { "q".repeat(n) }
#[inline(never)] #[no_mangle] pub fn traced_slice(s: &[i32]) -> &[i32] { black_box(s) }
#[inline(never)] #[no_mangle] pub fn traced_far(n: &[i64; 5], a: i64, b: i64, c: i64, d: i64, e: i64, s: &str, t: &[i32]) -> usize {
  black_box((n, a, b, c, d, e, t)); black_box(s).len()
}
mod inner { pub struct T; impl T { #[inline(never)] pub fn traced_method(&self, n: u64) -> u64 { super::black_box(n) + 1 } } }
fn main() {
  traced_str("octi", 3); traced_str("", -1i32); traced_string(String::from("owned text"), 'é'); traced_bytes(b"by\x00\xff", Color::Blue, true);
  let p = Point{x:1,y:2,z:3}; traced_point(Point{x:-7,y:8,z:9}, &p); traced_opt(Some(&p), Some(7)); traced_opt(None, None);
  println!("{}", traced_give(5)); traced_slice(&[1,2,3]); inner::T.traced_method(41);
  traced_far(&[0; 5], 1, 2, 3, 4, 5, "on the stack", &[7, 8]);
}
