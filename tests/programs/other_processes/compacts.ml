(* The collector walks the stack by return addresses. *)
let rec keep n = if n = 0 then [] else (if n mod 7 = 0 then Gc.compact (); n :: keep (n - 1))
let () = Printf.printf "%d\n" (List.length (keep 50))
