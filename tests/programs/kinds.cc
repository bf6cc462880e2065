// Prints the values of each call and its result as JSON, as the test expects them.
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#define TRACED extern "C" __attribute__((noinline))
#define KEEP(x) __asm__ volatile("" : : "r"(&(x)) : "memory")

struct Operations {
	int (*open)(int);
	void (*close)();
};

struct Precise {
	long double value;
	int scale;
};

int twice(int x)
{
	return 2 * x;
}

namespace deep
{
int inner(int x)
{
	return x + 1;
}
} // namespace deep

void finish()
{
}

TRACED std::string traced_string(std::string s, const std::string &r, int n)
{
	KEEP(s); KEEP(r); KEEP(n);
	return s + r;
}

TRACED std::string_view traced_view(std::string_view v)
{
	KEEP(v);
	return v.substr(1);
}

TRACED std::vector<int> traced_vector(std::vector<int> v, const std::vector<std::string> &t)
{
	KEEP(v); KEEP(t);
	return v;
}

TRACED std::vector<double> traced_many(int n)
{
	KEEP(n);
	return std::vector<double>(n, 1.5);
}

TRACED __int128 traced_wide(__int128 a, int n, unsigned __int128 b)
{
	KEEP(a); KEEP(n); KEEP(b);
	return a - n;
}

using Function = int (*)(int);

TRACED Function traced_function(Function f, void (*g)(), const Operations &o, Function none)
{
	KEEP(f); KEEP(g); KEEP(o); KEEP(none);
	return none ? none : f;
}

TRACED int traced_precise(long double x, int n, Precise p, const Precise &q)
{
	KEEP(x); KEEP(n); KEEP(p); KEEP(q);
	return n + 1;
}

struct Nothing {
};

struct Something : Nothing {
	long first;
	long second;
	long get();
};

long Something::get()
{
	return first;
}

TRACED int traced_empty(Nothing e, int n, Something s)
{
	KEEP(e); KEEP(n); KEEP(s);
	return n;
}

using Frames = std::chrono::duration<int, std::ratio<1, 30>>;

TRACED std::chrono::milliseconds traced_duration(std::chrono::milliseconds a,
						 const std::chrono::seconds &b, Frames c)
{
	KEEP(a); KEEP(b); KEEP(c);
	return a + b;
}

TRACED int traced_members(long Something::*data, int n, long (Something::*code)(), int more)
{
	KEEP(data); KEEP(n); KEEP(code); KEEP(more);
	return n;
}

static void show(const char *name, const char *arguments, const char *result)
{
	printf("{\"name\":\"%s\",\"args\":[%s],\"result\":%s}\n", name, arguments, result);
}

int main()
{
	std::string lower(22, 'l'), higher(23, 'h'), empty;

	show("traced_string", "\"short\",\"llllllllllllllllllllll\",1", "\"shortllllllllllllllllllllll\"");
	traced_string("short", lower, 1);
	show("traced_string", "\"hhhhhhhhhhhhhhhhhhhhhhh\",\"\",-1", "\"hhhhhhhhhhhhhhhhhhhhhhh\"");
	traced_string(higher, empty, -1);
	show("traced_view", "\"view\"", "\"iew\"");
	traced_view(std::string_view("view of more", 4));
	show("traced_vector", "[1,-2,3],[\"one\",\"two\"]", "[1,-2,3]");
	traced_vector({1, -2, 3}, {"one", "two"});
	show("traced_vector", "[],[]", "[]");
	traced_vector({}, {});
	show("traced_many", "20", "[1.5,1.5,1.5,1.5,1.5,1.5,1.5,1.5]");
	traced_many(20);
	show("traced_wide", "-5,3,1267650600228229401496703205376", "-8");
	traced_wide(-5, 3, (unsigned __int128)1 << 100);
	show("traced_function", "\"twice\",\"finish\",{\"open\":\"twice\",\"close\":\"finish\"},\"0x0\"",
	     "\"twice\"");
	traced_function(twice, finish, {twice, finish}, nullptr);
	show("traced_function",
	     "\"deep::inner\",\"finish\",{\"open\":\"deep::inner\",\"close\":\"0x0\"},\"twice\"",
	     "\"twice\"");
	traced_function(deep::inner, finish, {deep::inner, nullptr}, twice);
	show("traced_precise", "-1.25,3,{\"value\":0.5,\"scale\":7},{\"value\":1e+100,\"scale\":8}",
	     "4");
	traced_precise(-1.25L, 3, {0.5L, 7}, {1e100L, 8});
	show("traced_empty", "{},1,{\"first\":2,\"second\":3}", "1");
	Something something;
	something.first = 2;
	something.second = 3;
	traced_empty({}, 1, something);
	show("traced_duration", "\"1500ms\",\"-2s\",\"9[1/30]s\"", "\"-500ms\"");
	traced_duration(std::chrono::milliseconds(1500), std::chrono::seconds(-2), Frames(9));
	show("traced_members", "8,1,\"Something::get\",2", "1");
	traced_members(&Something::second, 1, &Something::get, 2);
}
