// Panics through traced frames, with the program's own account of the calls: see shadow.h.
//
//     panics LOG [catch | threads] N
use std::cell::RefCell;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic;
use std::thread;

extern "C" {
    fn gettid() -> i32;
}

static mut SINK: i64 = 0;

thread_local! {
    static CALLS: RefCell<Vec<(&'static str, i64)>> = RefCell::new(Vec::new());
    static LINES: RefCell<String> = RefCell::new(String::new());
}

fn enter(name: &'static str, argument: i64) {
    CALLS.with(|calls| calls.borrow_mut().push((name, argument)));
}

fn line(result: &str, end: &str) {
    let (name, argument) = CALLS.with(|calls| calls.borrow_mut().pop().unwrap());
    let line = format!(
        "{} {} {} {} {} {} {}\n",
        std::process::id(), unsafe { gettid() }, name, argument, result, end, depth()
    );
    LINES.with(|lines| lines.borrow_mut().push_str(&line));
}

// Takes nothing back, so that no call of it is a tail call.
fn leave(result: i64) {
    line(&result.to_string(), "returned");
}

fn depth() -> usize {
    CALLS.with(|calls| calls.borrow().len())
}

fn left(until: usize, end: &str) {
    while depth() > until {
        line("-", end);
    }
}

fn write(path: &str) {
    left(0, "open");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    LINES.with(|lines| file.write_all(lines.borrow().as_bytes()).unwrap());
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        unsafe { std::ptr::write_volatile(std::ptr::addr_of_mut!(SINK), 1) }
    }
}

#[no_mangle]
#[inline(never)]
pub fn traced_last(n: i64) -> i64 {
    enter("traced_last", n);
    leave(n * 2);
    n * 2
}

#[no_mangle]
#[inline(never)]
pub fn traced_frame(n: i64) -> i64 {
    enter("traced_frame", n);
    let _guard = Guard;
    if n == 0 {
        panic!("{}", traced_last(n));
    }
    let got = traced_frame(n - 1);
    leave(got + 1);
    got + 1
}

#[no_mangle]
#[inline(never)]
pub fn traced_catching(n: i64) -> i64 {
    enter("traced_catching", n);
    let here = depth();
    if panic::catch_unwind(|| traced_frame(n)).is_err() {
        left(here, "unwound");
        if n % 3 == 1 {
            leave(-n);
            return -n;
        }
    }
    let got = traced_last(n + 1);
    leave(got);
    got
}

#[no_mangle]
#[inline(never)]
pub fn traced_resuming(n: i64) -> i64 {
    enter("traced_resuming", n);
    let here = depth();
    if let Err(cause) = panic::catch_unwind(|| traced_frame(n)) {
        left(here, "unwound");
        traced_last(n);
        panic::resume_unwind(cause);
    }
    leave(0);
    0
}

#[no_mangle]
#[inline(never)]
pub fn traced_outermost(n: i64) -> i64 {
    enter("traced_outermost", n);
    let here = depth();
    if panic::catch_unwind(|| traced_resuming(n)).is_err() {
        left(here, "unwound");
    }
    let got = traced_catching(n);
    leave(got);
    got
}

/// A panic ends the thread; nothing is called there behind it.
struct Account(String);

impl Drop for Account {
    fn drop(&mut self) {
        left(0, "unwound");
        write(&self.0)
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let n: i64 = words[3].parse().unwrap();
    panic::set_hook(Box::new(|_| {}));
    if words[2] == "catch" {
        for i in 0..n {
            traced_outermost(i);
        }
    } else {
        let threads: Vec<_> = (0..n)
            .map(|i| {
                let path = words[1].clone();
                thread::spawn(move || {
                    let _account = Account(path);
                    traced_outermost(10);
                    traced_frame(10 + i)
                })
            })
            .collect();
        for thread in threads {
            assert!(thread.join().is_err());
        }
    }
    write(&words[1]);
}
