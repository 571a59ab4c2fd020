package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sluice/internal/sluice"
)

// Opt is a field of a PATCH: left out it keeps what is there, null clears it, a value sets it.
type Opt[T any] struct {
	Sent  bool
	Null  bool
	Value T
}

// Set is an Opt that sets a value.
func Set[T any](v T) Opt[T] { return Opt[T]{Sent: true, Value: v} }

// Clear is an Opt that clears.
func Clear[T any]() Opt[T] { return Opt[T]{Sent: true, Null: true} }

// IsZero reports whether the field is left out.
func (o Opt[T]) IsZero() bool { return !o.Sent }

// UnmarshalJSON implements json.Unmarshaler; it is called only for a field that is there.
func (o *Opt[T]) UnmarshalJSON(text []byte) error {
	o.Sent = true
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		o.Null = true
		return nil
	}
	return json.Unmarshal(text, &o.Value)
}

// MarshalJSON implements json.Marshaler.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if !o.Sent || o.Null {
		return []byte("null"), nil
	}
	return json.Marshal(o.Value)
}

// Schema implements huma.SchemaProvider: the value's, or null.
func (Opt[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), true, "")
	s.Nullable = true
	return &s
}

// to puts the value where it belongs; null becomes the zero value.
func (o Opt[T]) to(field *T) {
	if o.Sent {
		*field = o.Value
	}
}

// toPointer is to for fields of which null is a value of its own.
func (o Opt[T]) toPointer(field **T) {
	switch {
	case o.Sent && o.Null:
		*field = nil
	case o.Sent:
		v := o.Value
		*field = &v
	}
}

// notNull refuses to clear a field that must have a value.
func (o Opt[T]) notNull(doing, field string) error {
	if o.Sent && o.Null {
		return sluice.E("SLUICE-CONTROL-INVALID", doing, field+" cannot be cleared", "leave it out to keep it", nil)
	}
	return nil
}

// IfMatch is the version that a change is made for.
type IfMatch struct {
	IfMatch string `header:"If-Match" pattern:"^((W/)?\"?[0-9]{1,18}\"?|\\*)?$" doc:"ETag of the object that the change was made for; another present version is a 409"`
}

// version reads the header; 0 means any.
func (m IfMatch) version() (int64, error) {
	text := strings.Trim(strings.TrimPrefix(strings.TrimSpace(m.IfMatch), "W/"), `"`)
	if text == "" || text == "*" {
		return 0, nil
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 1 {
		return 0, sluice.E("SLUICE-USAGE", "read If-Match", fmt.Sprintf("%q is not the ETag of an object", m.IfMatch), "send the ETag that the object was read with", nil)
	}
	return v, nil
}

// versioned is an object with its version as ETag.
type versioned[T any] struct {
	ETag string `header:"ETag"`
	Body T
}

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

func answerVersion[T any](v T, version int64, err error) (*versioned[T], error) {
	if err != nil {
		return nil, err
	}
	return &versioned[T]{etag(version), v}, nil
}
