package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"sluice/internal/sluice"
)

// Sources says where Load reads from. The zero value is the process's environment and the usual files.
type Sources struct {
	Flags   *pflag.FlagSet    // as AddFlags made it; only flags that were given count
	Environ []string          // nil: os.Environ()
	File    string            // empty: flag --config, SLUICE_CONFIG, ./sluice.yaml, /etc/sluice/sluice.yaml
	NoFile  bool              // read no file
	Set     map[string]string // by path; they count like flags
}

// Loaded is a configuration that is right, and where each value came from.
type Loaded struct {
	Config
	File   string // the file that was read, or empty
	origin map[string]string
}

// Problem is one mistake.
type Problem struct {
	Path   string `json:"path"`   // key, or name of the environment variable
	Value  string `json:"value"`  // as it was written; a secret is not shown
	Source string `json:"source"` // flag, environment, file
	Reason string `json:"reason"`
}

func (p Problem) String() string {
	text := p.Path
	if p.Value != "" {
		text += " = " + p.Value
	}
	return fmt.Sprintf("%s (%s): %s", text, p.Source, p.Reason)
}

// Problems is the error of a configuration with mistakes: all of them.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// FlagConfig is the flag that names the file.
const FlagConfig = "config"

// AddFlags adds the flag --config and one for each key whose path is in only (none: all keys). Keys with an alias in the
// environment have a short flag, too: --state-dsn, --http, --listen, --log-level.
func AddFlags(fset *pflag.FlagSet, only ...string) {
	if fset.Lookup(FlagConfig) == nil {
		fset.String(FlagConfig, "", "configuration file (default ./sluice.yaml, else /etc/sluice/sluice.yaml)")
	}
	for _, k := range keys(new(Config)) {
		if len(only) > 0 && !slices.Contains(only, k.path) || fset.Lookup(k.path) != nil {
			continue
		}
		fset.String(k.path, "", k.help())
		if short := k.short(); short != "" {
			fset.String(short, "", "short for --"+k.path)
		}
	}
}

func (k *key) help() string {
	text := k.doc
	if k.deflt != "" && k.deflt != "0" {
		text += " (default " + k.deflt + ")"
	}
	return text
}

// short is the flag that goes with the alias, unless the key's path is that already.
func (k *key) short() string {
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(k.alias, "SLUICE_"), "_", "-"))
	if name == k.path {
		return ""
	}
	return name
}

// Load reads the configuration from all sources and checks it. The error is a SLUICE-CONFIG with every mistake; its cause
// is of type Problems.
func Load(src Sources) (*Loaded, error) {
	l := &Loaded{origin: map[string]string{}}
	r := &reader{loaded: l, keys: keys(&l.Config)}
	for _, k := range r.keys {
		if err := k.set(k.deflt); err != nil && k.deflt != "" {
			panic(fmt.Sprintf("default of %s: %v", k.path, err)) // a mistake in this package
		}
		l.origin[k.path] = "default"
	}
	environ := src.Environ
	if environ == nil {
		environ = os.Environ()
	}
	if !src.NoFile {
		r.file(fileName(src, environ), explicitFile(src, environ))
	}
	r.environment(environ)
	r.flags(src.Flags)
	for path, text := range src.Set {
		r.set(r.find(path), text, "flag")
	}
	r.complete()
	if len(r.problems) > 0 {
		what := "there is a mistake"
		if len(r.problems) > 1 {
			what = fmt.Sprintf("there are %d mistakes", len(r.problems))
		}
		return nil, sluice.E("SLUICE-CONFIG", "read the configuration", what+":\n  "+strings.ReplaceAll(r.problems.Error(), "\n", "\n  "),
			"correct them; sluice config check --help lists every key", r.problems)
	}
	return l, nil
}

// Origin says where a key's value came from: default, "file PATH", "environment NAME" or "flag".
func (l *Loaded) Origin(path string) string { return l.origin[path] }

// Setting is one key for `sluice config show`.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // secrets as ***
	Source string `json:"source"`
	Env    string `json:"env"`
	Doc    string `json:"doc"`
}

// Settings lists all keys with their values and sources.
func (l *Loaded) Settings() []Setting {
	var out []Setting
	for _, k := range keys(&l.Config) {
		env := k.env
		if k.alias != "" {
			env = k.alias
		}
		out = append(out, Setting{k.path, k.text(), l.origin[k.path], env, k.doc})
	}
	return out
}

// reader collects values and mistakes.
type reader struct {
	loaded   *Loaded
	keys     []*key
	problems Problems
}

func (r *reader) problem(path, value, source, reason string) {
	r.problems = append(r.problems, Problem{path, value, source, reason})
}

func (r *reader) find(path string) *key {
	for _, k := range r.keys {
		if k.path == path {
			return k
		}
	}
	return nil
}

func (r *reader) set(k *key, text, source string) {
	if err := k.set(text); err != nil {
		shown := text
		if k.isPlace {
			shown = "***"
		}
		r.problem(k.path, shown, source, err.Error())
		return
	}
	r.loaded.origin[k.path] = source
}

func lookup(environ []string, name string) string {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

func explicitFile(src Sources, environ []string) bool {
	return src.File != "" || flagValue(src.Flags, FlagConfig) != "" || lookup(environ, envConfig) != ""
}

func flagValue(fset *pflag.FlagSet, name string) string {
	if fset == nil {
		return ""
	}
	if f := fset.Lookup(name); f != nil && f.Changed {
		return f.Value.String()
	}
	return ""
}

const envConfig = "SLUICE_CONFIG"

func fileName(src Sources, environ []string) string {
	for _, name := range []string{src.File, flagValue(src.Flags, FlagConfig), lookup(environ, envConfig)} {
		if name != "" {
			return name
		}
	}
	for _, name := range []string{"sluice.yaml", "/etc/sluice/sluice.yaml"} {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return ""
}

// file reads sluice.yaml. A file that was named must exist.
func (r *reader) file(name string, explicit bool) {
	if name == "" {
		return
	}
	source := "file " + name
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		return
	}
	if err != nil {
		r.problem(FlagConfig, name, "flag or environment", err.Error())
		return
	}
	r.loaded.File = name
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		r.problem(name, "", "file", "not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if len(doc.Content) == 0 {
		return
	}
	r.node(doc.Content[0], "", source)
}

// node reads a mapping of the file.
func (r *reader) node(n *yaml.Node, prefix, source string) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.problem(prefix, n.Value, source, "keys are expected here")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		path, v := n.Content[i].Value, n.Content[i+1]
		if prefix != "" {
			path = prefix + "." + path
		}
		at := fmt.Sprintf("%s, line %d", source, n.Content[i].Line)
		if seen[path] {
			r.problem(path, "", at, "the key is there twice")
			continue
		}
		seen[path] = true
		if v.Kind == yaml.AliasNode {
			v = v.Alias
		}
		k := r.find(path)
		switch {
		case k == nil && r.isSection(path):
			r.node(v, path, source)
		case k == nil:
			r.problem(path, "", at, "unknown key"+r.didYouMean(path))
		case k.isPlace && v.Kind == yaml.MappingNode:
			r.reference(k, v, at)
		case v.Kind == yaml.ScalarNode && v.Tag == "!!null":
		case v.Kind == yaml.ScalarNode:
			r.set(k, v.Value, at)
		case k.isList && v.Kind == yaml.SequenceNode:
			var parts []string
			for _, e := range v.Content {
				parts = append(parts, e.Value)
			}
			r.set(k, strings.Join(parts, ","), at)
		default:
			r.problem(path, "", at, "a single value is expected here")
		}
	}
}

// reference reads {env: NAME} or {file: PATH}.
func (r *reader) reference(k *key, n *yaml.Node, at string) {
	if len(n.Content) == 2 && n.Content[1].Kind == yaml.ScalarNode && n.Content[1].Value != "" {
		switch n.Content[0].Value {
		case "env":
			r.set(k, "env:"+n.Content[1].Value, at)
			return
		case "file":
			path := n.Content[1].Value
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(r.loaded.File), path)
			}
			r.set(k, "file:"+path, at)
			return
		}
	}
	r.problem(k.path, "***", at, "a reference has exactly one key: {env: NAME} or {file: PATH}")
}

func (r *reader) isSection(path string) bool {
	return slices.ContainsFunc(r.keys, func(k *key) bool { return strings.HasPrefix(k.path, path+".") })
}

func (r *reader) didYouMean(path string) string {
	var names []string
	for _, k := range r.keys {
		names = append(names, k.path)
		if section, _, ok := strings.Cut(k.path, "."); ok && !slices.Contains(names, section) {
			names = append(names, section)
		}
	}
	return suggestion(nearest(path, names))
}

func suggestion(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// environment reads SLUICE_… names. Each must be a key, an alias, SLUICE_CONFIG, or what a secret refers to.
func (r *reader) environment(environ []string) {
	var names []string
	for _, k := range r.keys {
		names = append(names, k.env)
		if k.alias != "" {
			names = append(names, k.alias)
		}
	}
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "SLUICE_") || name == envConfig || r.isReferred(name) {
			continue
		}
		at := slices.IndexFunc(r.keys, func(k *key) bool { return k.env == name || k.alias == name })
		if at < 0 {
			r.problem(name, "", "environment", "unknown name"+suggestion(nearest(name, append(names, envConfig))))
			continue
		}
		k := r.keys[at]
		if k.env != name && lookup(environ, k.env) != "" && k.env != k.alias {
			continue // the long name counts
		}
		if k.isPlace && value != "" {
			// The environment is a place for secrets: the value stays there and is read on use.
			r.set(k, "env:"+name, "environment "+name)
			continue
		}
		r.set(k, value, "environment "+name)
	}
}

// isReferred reports whether a secret of the file is read from the variable.
func (r *reader) isReferred(name string) bool {
	for _, k := range r.keys {
		if s, ok := k.value.Interface().(Secret); ok && s.Env == name && k.env != name && k.alias != name {
			return true
		}
	}
	return false
}

func (r *reader) flags(fset *pflag.FlagSet) {
	if fset == nil {
		return
	}
	for _, k := range r.keys {
		for _, name := range []string{k.short(), k.path} {
			if name == "" {
				continue
			}
			if f := fset.Lookup(name); f != nil && f.Changed {
				r.set(k, f.Value.String(), "flag --"+name)
			}
		}
	}
}

// EnvironWithoutOurs is the environment without SLUICE_… names, for a process that is configured by its file alone.
func EnvironWithoutOurs() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "SLUICE_") })
}
