// Work for packages of Go's library: the same in every run.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"text/tabwriter"
	"text/template"
)

type part struct {
	Name  string   `json:"name"`
	Size  float64  `json:"size,omitempty"`
	Tags  []string `json:"tags"`
	Inner *part    `json:"inner,omitempty"`
}

const source = "package p\nfunc f ( a,b int)(c int){ if a>b {return a*2}\nfor i:=0;i<b;i++{c+=i}\nreturn }\n"

func main() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	out := tabwriter.NewWriter(os.Stdout, 4, 8, 1, ' ', 0)
	parts := []part{}
	for i := 0; i < 12; i++ {
		inner := &part{Name: strconv.Quote("n\t" + strconv.Itoa(i*7%11)), Size: float64(i) / 3}
		parts = append(parts, part{"p" + strings.Repeat("x", i), 1e3 / float64(i+1), []string{"a", "ß"}, inner})
	}
	sort.Slice(parts, func(i, j int) bool { return parts[i].Inner.Name < parts[j].Inner.Name })
	text, _ := json.MarshalIndent(parts, "", " ")
	var back []part
	fmt.Fprintln(out, json.Unmarshal(text, &back), len(text), back[3].Inner.Name)
	pattern := regexp.MustCompile(`(?i)([a-z]+)\d{1,3}|x*[^\s"]y$`)
	fmt.Fprintln(out, pattern.FindAllStringSubmatch("abc12 xx7 nope Zy", -1), pattern.NumSubexp())
	made, err := format.Source([]byte(source))
	fmt.Fprintln(out, string(made), err)
	plate := template.Must(template.New("t").Parse("{{range $i, $p := .}}{{if lt $i 3}}{{$p.Name | printf \"%8s\"}};{{end}}{{end}}"))
	var into bytes.Buffer
	fmt.Fprintln(out, plate.Execute(&into, parts), into.String())
	for _, number := range []string{"12", "-0x7f", "1e5", "3.14159", "99999999999999999999", "x"} {
		whole, err := strconv.ParseInt(number, 0, 64)
		real, _ := strconv.ParseFloat(number, 64)
		fmt.Fprintln(out, whole, err, strconv.FormatFloat(real, 'g', -1, 64))
	}
	out.Flush()
}
