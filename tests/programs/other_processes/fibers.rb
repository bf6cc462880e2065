# Switches between fibers in the middle of sorting, which the C library does.
fibers = 3.times.map { Fiber.new { [4, 2, 3, 1].sort { |x, y| Fiber.yield; x <=> y } } }
result = nil
fibers.cycle { |fiber| break unless fiber.alive?; result = fiber.resume }
p result
