// Says of each call what a trace should show of it: values of the C++ library as their users see them.
#include <array>
#include <atomic>
#include <bitset>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#define NOINLINE __attribute__((noinline))
#define KEEP(...) keep(&__VA_ARGS__)
static void keep(const void *value) { asm volatile("" : : "r"(value) : "memory"); }
#define say(...) (printf(__VA_ARGS__), putchar('\n'))

struct Customer { int id; std::string name; };
struct Request { int id; std::string path; std::shared_ptr<Customer> customer; std::unique_ptr<int> owned; };
enum Access { READ = 1, WRITE = 2, EXECUTE = 4, ALL = 7 };
enum Colour { RED, GREEN, BLUE, BLACK };
struct Shape {
	int sides;
	NOINLINE Shape(int n);
	virtual ~Shape() {}
	virtual double area() const { return 0; }
	NOINLINE void traced_draw(int n);
};
struct Tag { int tag = 5; virtual ~Tag() {} };
Shape::Shape(int n) : sides(n) { KEEP(n); }
void Shape::traced_draw(int n) { KEEP(n), keep(this); }
struct Circle : Shape, Tag { Circle() : Shape(0) {} double area() const override { return 3; } };
template <class K, class V> struct Cache { std::map<K, V> all; NOINLINE void traced_get(const K &key) { KEEP(key), keep(this); } };

NOINLINE void traced_unique(std::unique_ptr<Customer> p, const std::unique_ptr<int> &none) { KEEP(p), KEEP(none); }
NOINLINE void traced_shared(std::shared_ptr<Customer> p, const std::weak_ptr<Customer> &w, std::shared_ptr<int> none) { KEEP(p), KEEP(w), KEEP(none); }
NOINLINE int traced_request(const Request &r) { KEEP(r); return r.id; }
NOINLINE void traced_list(const std::list<int> &l, std::forward_list<int> f) { KEEP(l), KEEP(f); }
NOINLINE void traced_deque(const std::deque<int> &d, const std::deque<std::string> &texts) { KEEP(d), KEEP(texts); }
NOINLINE void traced_table(const std::unordered_map<std::string, int> &m) { KEEP(m); }
NOINLINE void traced_set(const std::unordered_set<int> &s, std::unordered_map<int, double> none) { KEEP(s), KEEP(none); }
NOINLINE void traced_view(std::span<int> s, std::span<const int, 2> two) { KEEP(s), KEEP(two); }
NOINLINE void traced_tuples(std::tuple<int, std::tuple<char, long>> t, std::tuple<std::tuple<int, int>, int> u) { KEEP(t), KEEP(u); }
NOINLINE void traced_tuple(std::tuple<int, double, std::string> t, std::array<int, 3> a) { KEEP(t), KEEP(a); }
NOINLINE void traced_bits(const std::vector<bool> &v, std::bitset<10> b) { KEEP(v), KEEP(b); }
NOINLINE void traced_time(std::chrono::milliseconds m, std::chrono::nanoseconds n, std::chrono::system_clock::time_point t) { KEEP(m), KEEP(n), KEEP(t); }
NOINLINE void traced_path(const std::filesystem::path &p) { KEEP(p); }
NOINLINE int twice(int x) { return 2 * x; }
struct Adder { int more; int operator()(int x) const { return x + more; } };
NOINLINE void traced_function(std::function<int(int)> f, const std::function<int(int)> &g, std::function<void()> none) { KEEP(f), KEEP(g), KEEP(none); }
NOINLINE void traced_atomic(std::atomic<int> &n, const std::atomic<bool> &b) { KEEP(n), KEEP(b); }
NOINLINE void traced_flags(Access a, Access unknown, Colour c) { KEEP(a), KEEP(unknown), KEEP(c); }
NOINLINE void traced_objects(const Shape &s, Tag *t, Shape *none, Shape *no_object) { KEEP(s), KEEP(t), KEEP(none), KEEP(no_object); }
static NOINLINE int traced_clone(int unused, int x, int factor) { KEEP(x); return x * factor; }

int main(int count, char **)
{
	using namespace std::chrono;
	auto unique = std::make_unique<Customer>(Customer{9, "nine"});
	say("traced_unique(p=%p, none=nullptr)", (void *)unique.get());
	traced_unique(std::move(unique), nullptr);
	auto customer = std::make_shared<Customer>(Customer{7, "octi"});
	say("traced_shared(p=%p (use 2), w=%p (use 2), none=nullptr)", (void *)customer.get(), (void *)customer.get());
	traced_shared(customer, customer, nullptr);
	Request request{42, "/x", customer, nullptr};
	say("traced_request(r=&{id=42, path=\"/x\", customer=%p (use 2), owned=nullptr}) = 42", (void *)customer.get());
	traced_request(request);
	say("traced_list(l=[4, 5, 6], f=[7, 8])"), traced_list({4, 5, 6}, {7, 8});
	std::deque<int> many(1000, 3);
	for (int n = 0; n < 900; n++)
		many.pop_front(), many.push_back(n);
	say("traced_deque(d=[3, 3, 3, 3, 3, 3, 3, 3, … 992 more], texts=[\"a\"])");
	many.resize(100), many.resize(1000);
	std::deque<int> few{1, 2, 3};
	traced_deque(many, {"a"});
	say("traced_deque(d=[1, 2, 3], texts=[])"), traced_deque(few, {});
	say("traced_table(m={\"key\": 5})"), traced_table({{"key", 5}});
	say("traced_set(s=[1], none={})"), traced_set({1}, {});
	int held[] = {1, 2};
	say("traced_view(s=[1, 2], two=&[1, 2])"), traced_view(held, held);
	say("traced_tuples(t=(7, ('c', 8)), u=((5, 6), 9))"), traced_tuples({7, {'c', 8}}, {{5, 6}, 9});
	say("traced_tuple(t=(1, 2.5, \"t\"), a=[1, 2, 3])"), traced_tuple({1, 2.5, "t"}, {1, 2, 3});
	say("traced_bits(v=[true, false, true], b=0b0000000101)"), traced_bits({true, false, true}, 5);
	say("traced_time(m=1.5s, n=-1.234567ms, t=2024-11-22T18:57:34Z)");
	traced_time(1500ms, -1234567ns, system_clock::time_point(1732301854s));
	say("traced_path(p=\"/etc/passwd\")"), traced_path("/etc/passwd");
	say("traced_function(f=twice, g=Adder, none=empty)"), traced_function(twice, Adder{3}, nullptr);
	std::atomic<int> n{5};
	say("traced_atomic(n=&5, b=&true)"), traced_atomic(n, true);
	say("traced_flags(a=EXECUTE|READ, unknown=9, c=BLUE)"), traced_flags(Access(5), Access(9), BLUE);
	Circle circle;
	Shape plain(4);
	alignas(16) char junk[64] = {1, 2, 3};
	Tag *tag = &circle;
	say("traced_objects(s=&{sides=0} (Circle), t=%p (Circle), none=0x0, no_object=%p)", (void *)tag, (void *)junk);
	traced_objects(circle, tag, nullptr, (Shape *)junk);
	say("Shape::traced_draw(this=%p (Circle), n=1)", (void *)(Shape *)&circle), circle.traced_draw(1);
	say("Shape::traced_draw(this=%p (Shape), n=2)", (void *)&plain), plain.traced_draw(2);
#if defined(__OPTIMIZE__) && !defined(__clang__)
	say("traced_clone.constprop.0(x=1) = 3");
#elif defined(__OPTIMIZE__) // its only call passes constants, and clang leaves these out
	say("traced_clone(unused=<optimised out>, x=1, factor=<optimised out>) = <optimised out>");
#else
	say("traced_clone(unused=5, x=1, factor=3) = 3");
#endif
	int tripled = traced_clone(5, count, 3);
	KEEP(tripled);
	Cache<int, std::shared_ptr<Customer>> cache;
	say("Cache<int, std::shared_ptr<Customer>>::traced_get(this=%p, key=&3)", (void *)&cache), cache.traced_get(3);
}
