// How functions print the values of C++'s library that they are called with: as lbtrace's JSON
// Lines show them. test_cpp_library.py adds the functions, and a main that calls them.
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>
#include <absl/strings/string_view.h>

#define NOINLINE __attribute__((noinline))

// What the compiler cannot see through.
template <class T> NOINLINE T opaque(T value)
{
	asm volatile("" ::: "memory");
	return value;
}

struct Pair { int x; long y; };
struct Small { char c; short s; };
inline bool operator<(const Pair &a, const Pair &b) { return a.x != b.x ? a.x < b.x : a.y < b.y; }
struct Backwards { bool operator()(int a, int b) const { return a > b; } };
// A comparison with state: it lies in the map, before or after the rest.
struct Turned {
	long turn = 0;
	bool operator()(int a, int b) const { return (a ^ turn) < (b ^ turn); }
};

template <class T> struct Teller;
template <class T> void tell(const T &x) { Teller<T>::tell(x); }

#define NAMED(type, form, ...) \
	template <> struct Teller<type> { \
		static const char *name() { return #type; } \
		static void tell(const type &x) { printf(form, __VA_ARGS__); } \
	};
NAMED(bool, "%s", x ? "true" : "false")
NAMED(char, "\"%c\"", x)
NAMED(unsigned char, "%u", x)
NAMED(short, "%d", x)
NAMED(int, "%d", x)
NAMED(long, "%ld", x)
NAMED(unsigned long, "%lu", x)
NAMED(double, "%.17g", x)
NAMED(Pair, "{\"x\": %d, \"y\": %ld}", x.x, x.y)
NAMED(Small, "{\"c\": \"%c\", \"s\": %d}", x.c, x.s)

inline void text(const char *data, size_t size) { printf("\"%.*s\"", (int)size, data); }
#define TEXT(type, written) \
	template <> struct Teller<type> { \
		static const char *name() { return written; } \
		static void tell(const type &x) { text(x.data(), x.size()); } \
	};
TEXT(std::string, "string")
TEXT(std::string_view, "string_view")
TEXT(absl::string_view, "string_view")

template <class T> void list(const T &all)
{
	const char *before = "";
	putchar('[');
	for (const auto &each : all) {
		printf("%s", before);
		before = ", ";
		tell(each);
	}
	putchar(']');
}
template <class T> struct Teller<std::vector<T>> {
	static const char *name() { return "vector"; }
	static void tell(const std::vector<T> &x) { list(x); }
};
template <class T, class C> struct Teller<std::set<T, C>> {
	static const char *name() { return "set"; }
	static void tell(const std::set<T, C> &x) { list(x); }
};
template <class T, class C> struct Teller<std::multiset<T, C>> {
	static const char *name() { return "multiset"; }
	static void tell(const std::multiset<T, C> &x) { list(x); }
};
template <class K, class V, class C> struct Teller<std::map<K, V, C>> {
	static const char *name() { return "map"; }
	static void tell(const std::map<K, V, C> &x) { list(x); }
};
template <class K, class V, class C> struct Teller<std::multimap<K, V, C>> {
	static const char *name() { return "multimap"; }
	static void tell(const std::multimap<K, V, C> &x) { list(x); }
};
template <class K, class V> struct Teller<std::pair<const K, V>> {
	static void tell(const std::pair<const K, V> &x)
	{
		putchar('[');
		::tell(x.first);
		printf(", ");
		::tell(x.second);
		putchar(']');
	}
};
template <class T> struct Teller<std::optional<T>> {
	static const char *name() { return "optional"; }
	static void tell(const std::optional<T> &x)
	{
		if (x)
			::tell(*x);
		else
			printf("\"nullopt\"");
	}
};
template <class... T> struct Teller<std::variant<T...>> {
	static const char *name() { return "variant"; }
	static void tell(const std::variant<T...> &x)
	{
		std::visit([](const auto &held) {
			using Held = std::decay_t<decltype(held)>;
			printf("{\"%s\": ", Teller<Held>::name());
			::tell(held);
			putchar('}');
		}, x);
	}
};

struct Log {
	Log(const char *name) { printf("{\"name\": \"%s\", \"args\": {", name); }
	template <class T> void operator()(const char *name, const T &x)
	{
		printf(first ? "\"%s\": " : ", \"%s\": ", name);
		first = false;
		tell(x);
	}
	template <class T> void result(const T &x) { printf("}, \"result\": "); tell(x); }
	~Log() { printf("}\n"); }
	bool first = true;
};
