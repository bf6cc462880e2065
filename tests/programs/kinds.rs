// Prints each call's values as JSON, then passes them; every value is used and every
// result taken, so that the compiler leaves the functions what they are.
include!("black_box.rs");
use self::black_box as keep;
use std::num::NonZeroU32;

#[derive(Clone, Copy)]
pub enum Shape { Circle(f64), Rect { w: u32, h: u32 }, Nothing }
#[derive(Clone, Copy)]
pub struct Two { pub a: i32, pub b: i32 }
#[derive(Clone, Copy)]
pub struct Three { pub a: i16, pub b: i16, pub c: i16 }
#[derive(Clone, Copy)]
pub struct Long { pub a: i64, pub b: i32, pub c: i32 }

fn show<T>(name: &str, json: String, value: T) -> T {
    println!("{{\"name\":\"{name}\",\"args\":[{json}]}}");
    keep(value)
}

macro_rules! traced {
    ($name:ident, $type:ty) => {
        #[no_mangle]
        #[inline(never)]
        pub extern "Rust" fn $name(value: $type, more: i32) -> $type {
            keep(&value);
            keep((more, stringify!($name))); // no two functions are alike, and merged
            value
        }
    };
}
traced!(traced_u32, Option<u32>);
traced!(traced_u64, Option<u64>);
traced!(traced_bool, Option<bool>);
traced!(traced_box, Option<Box<i64>>);
traced!(traced_str, Option<&'static str>);
traced!(traced_string, Option<String>);
traced!(traced_char, Option<char>);
traced!(traced_result, Result<u32, u32>);
traced!(traced_mixed, Result<u32, u8>);
traced!(traced_failure, Result<i64, String>);
traced!(traced_shape, Shape);
traced!(traced_two, Two);
traced!(traced_three, Three);
traced!(traced_long, Long);
traced!(traced_tuple, (u8, u64));
traced!(traced_wide, i128);
traced!(traced_vec, Vec<u32>);
traced!(traced_texts, Vec<String>);
traced!(traced_slice, &'static [i16]);
traced!(traced_bytes, &'static [u8]);
traced!(traced_array, [u16; 3]);
traced!(traced_numbers, [i32; 4]);
traced!(traced_nonzero, Option<NonZeroU32>);
traced!(traced_function, fn(i32) -> i32);

#[no_mangle]
#[inline(never)]
pub fn double(x: i32) -> i32 { x * 2 }

macro_rules! call {
    ($name:ident, $json:expr, $value:expr) => {
        for more in [-1i32, 7] {
            show(stringify!($name), format!("{},{more}", $json), ());
            keep($name($value, more));
        }
    };
}

fn main() {
    call!(traced_u32, "{\"Some\":4000000000}", keep(Some(4_000_000_000)));
    call!(traced_u32, "\"None\"", keep(None));
    call!(traced_u64, "{\"Some\":1099511627776}", keep(Some(1 << 40)));
    call!(traced_u64, "\"None\"", keep(None));
    call!(traced_bool, "{\"Some\":true}", keep(Some(true)));
    call!(traced_bool, "{\"Some\":false}", keep(Some(false)));
    call!(traced_bool, "\"None\"", keep(None));
    call!(traced_box, "{\"Some\":-5}", keep(Some(Box::new(-5))));
    call!(traced_box, "\"None\"", keep(None));
    call!(traced_str, "{\"Some\":\"héllo\"}", keep(Some("héllo")));
    call!(traced_str, "\"None\"", keep(None));
    call!(traced_string, "{\"Some\":\"owned\"}", keep(Some("owned".to_string())));
    call!(traced_string, "\"None\"", keep(None));
    call!(traced_char, "{\"Some\":\"ß\"}", keep(Some('ß')));
    call!(traced_char, "\"None\"", keep(None));
    call!(traced_result, "{\"Ok\":3}", keep(Ok(3)));
    call!(traced_result, "{\"Err\":4}", keep(Err(4)));
    call!(traced_mixed, "{\"Ok\":70000}", keep(Ok(70000)));
    call!(traced_mixed, "{\"Err\":255}", keep(Err(255)));
    call!(traced_failure, "{\"Ok\":-9}", keep(Ok(-9)));
    call!(traced_failure, "{\"Err\":\"broken\"}", keep(Err("broken".to_string())));
    call!(traced_shape, "{\"Circle\":1.5}", keep(Shape::Circle(1.5)));
    call!(traced_shape, "{\"Rect\":{\"w\":3,\"h\":4}}", keep(Shape::Rect { w: 3, h: 4 }));
    call!(traced_shape, "\"Nothing\"", keep(Shape::Nothing));
    call!(traced_two, "{\"a\":1,\"b\":-2}", keep(Two { a: 1, b: -2 }));
    call!(traced_three, "{\"a\":1,\"b\":2,\"c\":-3}", keep(Three { a: 1, b: 2, c: -3 }));
    call!(traced_long, "{\"a\":1,\"b\":2,\"c\":-3}", keep(Long { a: 1, b: 2, c: -3 }));
    call!(traced_tuple, "[200,8589934592]", keep((200, 1 << 33)));
    call!(traced_wide, i128::MIN, keep(i128::MIN));
    call!(traced_vec, "[1,2,3]", keep(vec![1, 2, 3]));
    call!(traced_vec, "[]", keep(vec![]));
    call!(traced_texts, "[\"one\",\"two\"]", keep(vec!["one".to_string(), "two".to_string()]));
    call!(traced_slice, "[-1,-2]", keep(&[-1, -2]));
    call!(traced_bytes, "\"by\\u0000\"", keep(b"by\0"));
    call!(traced_array, "[1,2,3]", keep([1, 2, 3]));
    call!(traced_numbers, "[4,5,6,-7]", keep([4, 5, 6, -7]));
    call!(traced_nonzero, "{\"Some\":5}", keep(NonZeroU32::new(5)));
    call!(traced_nonzero, "\"None\"", keep(NonZeroU32::new(0)));
    call!(traced_function, "\"double\"", keep(double as fn(i32) -> i32));
}
