// How functions print the values that they are called with: as lbtrace's JSON Lines show them.
// test_cpp_signatures.py adds the functions, and a main that calls them.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cwchar>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#define NOINLINE __attribute__((noinline))

// What the compiler cannot see through.
template <class T> NOINLINE T opaque(T value)
{
	asm volatile("" ::: "memory");
	return value;
}

enum class Color : unsigned char { RED, GREEN = 7, BLUE = 200 };
enum class Tone : long { LOW = -5, HIGH = 1L << 40 };
enum Shade { DARK, LIGHT = -3 };

struct Pair { int x, y; };
struct Mixed { double d; long l; };
struct Reals { double a, b; };
struct Triple { float x, y, z; };
struct Small { char c; short s; };
struct Large { long v[2]; int w; };
struct Bits { unsigned a : 3, b : 7; int c : 5; bool d : 1; };
struct Wide { __int128 v; };
struct Exact { long double v; int n; };
struct Lone { long double v; };
struct Empty {};
struct Tagged : Empty { int v; };
struct Derived : Pair { short z; };
struct Twice : Pair, Mixed { char c; };
struct NoRoom { [[no_unique_address]] Empty e; int v; };
struct WithEmpty { Empty e; long v; };
struct Nested { Small s; Pair p; };
struct Rows { short v[2][2]; };
struct Chars { char text[7]; unsigned char n; };
struct Packed { char c; long l; int i; } __attribute__((packed));
struct Tight { char c; int i; } __attribute__((packed));
struct alignas(32) Aligned { long a; };
struct Named { const char *name; int age; };
struct Texts { std::string text; int n; };
union Either { int i; unsigned char bytes[4]; };
union Number { double d; long l; };
struct Holder { Number n; int k; };
struct Private { Private(int a, long b) : a(a), b(b) {} int a; long b; };
struct Defaulted { Defaulted() = default; Defaulted(const Defaulted &) = default; int a; float b; };

// These travel as pointers to them.
struct Copied { Copied(int v) : v(v) {} Copied(const Copied &o) : v(o.v) {} int v; };
struct Ended { Ended(long v) : v(v) {} ~Ended() { asm volatile(""); } long v; };
struct Moved { Moved(int a, int b) : a(a), b(b) {} Moved(Moved &&o) : a(o.a), b(o.b) {} int a, b; };
struct Virtual { Virtual(int v) : v(v) {} virtual ~Virtual() {} int v; };
struct HoldsCopied { Copied c; char d; };
// Defaulted where it is not declared: as if the program provided it.
struct Later { Later(int v) : v(v) {} Later(const Later &); int v; };
inline Later::Later(const Later &) = default;
struct FromEnded : Ended { FromEnded(long v, int w) : Ended(v), w(w) {} int w; };
// This one does not: it cannot be copied, but moved trivially.
struct OnlyMoved { OnlyMoved(int v) : v(v) {} OnlyMoved(const OnlyMoved &) = delete; OnlyMoved(OnlyMoved &&) = default; int v; };

template <class T> struct Box { T inside; int n; };

typedef int (*Function)(int);
NOINLINE int halve(int x) { return x / 2; }
NOINLINE int negate(int x) { return -x; }
typedef int Pair::*Member;
inline int numbers[4];

#define NUMBERS(type, form) inline void show(type x) { printf(form, x); }
NUMBERS(signed char, "%d")
NUMBERS(unsigned char, "%u")
NUMBERS(short, "%d")
NUMBERS(unsigned short, "%u")
NUMBERS(int, "%d")
NUMBERS(unsigned, "%u")
NUMBERS(long, "%ld")
NUMBERS(unsigned long, "%lu")
NUMBERS(long long, "%lld")
NUMBERS(unsigned long long, "%llu")
NUMBERS(float, "%.9g")
NUMBERS(double, "%.17g")
NUMBERS(long double, "%.17Lg")
NUMBERS(char, "\"%c\"")
inline void show(bool x) { printf(x ? "true" : "false"); }
inline void show(wchar_t x) { printf("\"%c\"", (int)x); }
inline void show(char16_t x) { printf("\"%c\"", (int)x); }
inline void show(char32_t x) { printf("\"%c\"", (int)x); }
inline void digits(unsigned __int128 x)
{
	if (x > 9)
		digits(x / 10);
	putchar('0' + (int)(x % 10));
}
inline void show(__int128 x)
{
	if (x < 0)
		putchar('-');
	digits(x < 0 ? -(unsigned __int128)x : x);
}
inline void show(unsigned __int128 x) { digits(x); }
inline void show(Color x) { printf(x == Color::RED ? "\"RED\"" : x == Color::GREEN ? "\"GREEN\"" : "\"BLUE\""); }
inline void show(Tone x) { printf(x == Tone::LOW ? "\"LOW\"" : "\"HIGH\""); }
inline void show(Shade x) { printf(x == DARK ? "\"DARK\"" : "\"LIGHT\""); }
inline void show(const char *x) { printf("\"%s\"", x); }
inline void show(const std::string &x) { printf("\"%s\"", x.c_str()); }
inline void show(std::string_view x) { printf("\"%.*s\"", (int)x.size(), x.data()); }
inline void show(Function x) { printf(x == halve ? "\"halve\"" : "\"negate\""); }
inline void show(std::nullptr_t) { printf("\"nullptr\""); }
inline void address(const void *x) { printf("\"0x%lx\"", (unsigned long)x); }
inline void show(int *x) { address(x); }
inline void show(const Large *x) { address(x); }
inline void show(void *x) { address(x); }
inline void show(Member x) { printf("%d", x == &Pair::x ? 0 : 4); }

template <class T> void show(const std::vector<T> &x);
template <class T, size_t N> void show(const T (&x)[N]);
template <class A, class B> void show(const std::pair<A, B> &x);
template <class... T> void show(const std::tuple<T...> &x);
template <class T> void show(const std::unique_ptr<T> &x);
template <class T> void show(const std::shared_ptr<T> &x);

template <class T> void element(bool &first, const char *name, const T &x)
{
	printf(first ? "" : ", ");
	first = false;
	if (name)
		printf("\"%s\": ", name);
	show(x);
}
template <class T> void show(const std::vector<T> &x)
{
	bool first = true;
	putchar('[');
	for (const auto &each : x)
		element(first, nullptr, each);
	putchar(']');
}
template <class T, size_t N> void show(const T (&x)[N])
{
	bool first = true;
	putchar('[');
	for (const auto &each : x)
		element(first, nullptr, each);
	putchar(']');
}
template <class A, class B> void show(const std::pair<A, B> &x)
{
	bool first = true;
	putchar('{');
	element(first, "first", x.first);
	element(first, "second", x.second);
	putchar('}');
}
// Of these only the numbers inside are compared.
template <class... T> void show(const std::tuple<T...> &x)
{
	bool first = true;
	putchar('[');
	std::apply([&](const auto &...each) { (element(first, nullptr, each), ...); }, x);
	putchar(']');
}
template <class T> void show(const std::unique_ptr<T> &x) { putchar('['); address(x.get()); putchar(']'); }
template <class T> void show(const std::shared_ptr<T> &x) { putchar('['); address(x.get()); putchar(']'); }

#define M(name) element(first, #name, x.name);
#define B(name) element(first, #name, static_cast<const name &>(x));
#define STRUCT(type, members) \
	inline void show(const type &x) { bool first = true; (void)first; (void)x; putchar('{'); members putchar('}'); }
STRUCT(Pair, M(x) M(y))
STRUCT(Mixed, M(d) M(l))
STRUCT(Reals, M(a) M(b))
STRUCT(Triple, M(x) M(y) M(z))
STRUCT(Small, M(c) M(s))
STRUCT(Large, M(v) M(w))
STRUCT(Bits, element(first, "a", (unsigned)x.a); element(first, "b", (unsigned)x.b); element(first, "c", (int)x.c); element(first, "d", (bool)x.d);)
STRUCT(Wide, M(v))
STRUCT(Exact, M(v) M(n))
STRUCT(Lone, M(v))
STRUCT(Empty, )
STRUCT(Tagged, M(v))
STRUCT(Derived, B(Pair) M(z))
STRUCT(Twice, B(Pair) B(Mixed) M(c))
STRUCT(NoRoom, M(e) M(v))
STRUCT(WithEmpty, M(e) M(v))
STRUCT(Nested, M(s) M(p))
STRUCT(Rows, M(v))
STRUCT(Chars, element(first, "text", (const char *)x.text); M(n))
STRUCT(Packed, element(first, "c", (char)x.c); element(first, "l", (long)x.l); element(first, "i", (int)x.i);)
STRUCT(Tight, element(first, "c", (char)x.c); element(first, "i", (int)x.i);)
STRUCT(Aligned, M(a))
STRUCT(Named, M(name) M(age))
STRUCT(Texts, M(text) M(n))
STRUCT(Either, M(i) M(bytes))
STRUCT(Number, M(d) M(l))
STRUCT(Holder, M(n) M(k))
STRUCT(Private, M(a) M(b))
STRUCT(Defaulted, M(a) M(b))
STRUCT(Copied, M(v))
STRUCT(Later, M(v))
STRUCT(Ended, M(v))
STRUCT(Moved, M(a) M(b))
STRUCT(Virtual, M(v))
STRUCT(HoldsCopied, M(c) M(d))
STRUCT(FromEnded, B(Ended) M(w))
STRUCT(OnlyMoved, M(v))
template <class T> void show(const Box<T> &x)
{
	bool first = true;
	putchar('{');
	M(inside)
	M(n)
	putchar('}');
}

struct Log {
	Log(const char *name) { printf("{\"name\": \"%s\", \"args\": {", name); }
	template <class T> void operator()(const char *name, const T &x) { element(first, name, x); }
	void at(const char *name, const void *x)
	{
		printf(first ? "\"%s\": " : ", \"%s\": ", name);
		first = false;
		address(x);
	}
	template <class T> void referred(const char *name, const T &x)
	{
		at(name, &x);
		printf(", \"&%s\": ", name);
		show(x);
	}
	template <class T> void result(const T &x) { printf("}, \"result\": "); show(x); }
	void result_at(const void *x) { printf("}, \"result\": "); address(x); }
	void nothing() { printf("}, \"result\": null"); }
	~Log() { printf("}\n"); }
	bool first = true;
};
