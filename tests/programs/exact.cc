// Exceptions and coroutines, with the program's own account of the calls.
//
//     exact++ LOG MODE [N]
#include <coroutine>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <utility>

#include "shadow.h"

static volatile long sink;

extern "C" {

TRACED long traced_last(long n)
{
	ENTER(n);
	RETURN(n * 2);
}

// ------------------------------------------------------------- exceptions

// What it calls lies deeper than what was left.
static APART void aside(long n)
{
	volatile char room[1024];
	room[n & 1023] = 0;
	sink = sink + traced_last(n) + room[n & 1023];
}

TRACED long traced_thrower(long n)
{
	ENTER(n);
	sink = sink + traced_last(n);
	throw std::runtime_error("thrown");
}

TRACED long traced_frame(long n)
{
	ENTER(n);
	struct cleanup {
		int depth;
		~cleanup() { shadow_unwound(depth); }
	} here{shadow->depth};
	if (n == 0)
		RETURN(traced_thrower(n));
	RETURN(traced_frame(n - 1) + 1);
}

TRACED long traced_catching(long n)
{
	ENTER(n);
	int depth = shadow->depth;
	try {
		sink = sink + traced_frame(n);
	} catch (const std::exception &) {
		shadow_unwound(depth);
		if (n % 3 == 1)
			RETURN(-n);
		aside(n);
	}
	RETURN(traced_last(n + 1));
}

TRACED long traced_rethrowing(long n)
{
	ENTER(n);
	int depth = shadow->depth;
	try {
		sink = sink + traced_frame(n);
	} catch (...) {
		shadow_unwound(depth);
		sink = sink + traced_last(n);
		throw;
	}
	RETURN(0);
}

TRACED long traced_cleaning(long n)
{
	ENTER(n);
	struct cleanup {
		long n;
		int depth;
		~cleanup()
		{
			shadow_unwound(depth);
			aside(n);
		}
	} here{n, shadow->depth};
	sink = sink + traced_rethrowing(n);
	return 0;
}

static APART void catch_untraced(long n)
{
	int depth = shadow->depth;
	try {
		sink = sink + traced_cleaning(n);
	} catch (...) {
		shadow_unwound(depth);
		aside(n);
	}
}

TRACED long traced_outermost(long n)
{
	ENTER(n);
	catch_untraced(n);
	RETURN(traced_catching(n));
}

TRACED long traced_terminating(long n) noexcept
{
	ENTER(n);
	sink = sink + traced_frame(n);
	return 0;
}

} // extern "C"

// ------------------------------------------------------------- coroutines

struct Generator {
	struct promise_type {
		long value = 0;
		Generator get_return_object()
		{
			return Generator{std::coroutine_handle<promise_type>::from_promise(*this)};
		}
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		std::suspend_always yield_value(long v) noexcept
		{
			value = v;
			return {};
		}
		void return_void() {}
		void unhandled_exception() { std::terminate(); }
	};
	std::coroutine_handle<promise_type> handle;
};

static Generator counting(long from)
{
	for (long i = from;; i++) {
		sink = sink + traced_last(i);
		co_yield i;
	}
}

// Symmetric transfer: each coroutine resumes the other, without a stack frame.
struct Player {
	struct promise_type {
		Player get_return_object()
		{
			return Player{std::coroutine_handle<promise_type>::from_promise(*this)};
		}
		std::suspend_always initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		void return_void() {}
		void unhandled_exception() { std::terminate(); }
	};
	std::coroutine_handle<promise_type> handle;
};

static std::coroutine_handle<> other[2];
static long moves;

struct Pass {
	int to;
	bool await_ready() { return false; }
	std::coroutine_handle<> await_suspend(std::coroutine_handle<>) { return other[to]; }
	void await_resume() {}
};

static Player playing(int self, long count)
{
	while (moves < count) {
		moves++;
		sink = sink + traced_last(moves);
		co_await Pass{1 - self};
	}
}

extern "C" {

TRACED long traced_resume(long n, Generator &generator)
{
	ENTER(n);
	generator.handle.resume();
	RETURN(generator.handle.promise().value);
}

TRACED long traced_generate(long n)
{
	ENTER(n);
	Generator one = counting(10), two = counting(20);
	long sum = 0;
	for (long i = 0; i < n; i++) {
		sum += traced_resume(i, one);
		sum += traced_resume(-i, two);
	}
	one.handle.destroy();
	two.handle.destroy();
	RETURN(sum);
}

TRACED long traced_play(long n)
{
	ENTER(n);
	Player players[] = {playing(0, n), playing(1, n)};
	other[0] = players[0].handle;
	other[1] = players[1].handle;
	players[0].handle.resume();
	RETURN(moves);
}

} // extern "C"

static void terminated()
{
	shadow_write();
	abort();
}

int main(int, char **argv)
{
	const char *mode = argv[2];
	long n = argv[3] ? atol(argv[3]) : 0;

	shadow_start(argv[1]);
	if (!strcmp(mode, "throw"))
		for (long i = 0; i < n; i++)
			sink = sink + traced_outermost(i);
	else if (!strcmp(mode, "terminate")) {
		std::set_terminate(terminated);
		sink = sink + traced_terminating(n);
	} else if (!strcmp(mode, "generate"))
		sink = sink + traced_generate(n);
	else if (!strcmp(mode, "play"))
		sink = sink + traced_play(n);
	else
		return 2;
	shadow_write();
	return 0;
}
