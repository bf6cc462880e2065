// What std::hint::black_box is from Rust 1.66 on.
#[inline(never)]
fn black_box<T>(value: T) -> T {
    let same = unsafe { std::ptr::read_volatile(&value) };
    std::mem::forget(value);
    same
}
