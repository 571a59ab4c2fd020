package jsonscan

import "errors"

// FieldError is a member of an object that is not as it must be. Name is its path from the outermost object.
type FieldError struct{ Name, What string }

func (e *FieldError) Error() string { return e.Name + ": " + e.What }

// Within says in which member an error about a value is; other errors stay as they are.
func Within(name string, err error) error {
	var syntax *SyntaxError
	if errors.As(err, &syntax) {
		return &FieldError{name, syntax.What}
	}
	var inner *FieldError
	if errors.As(err, &inner) {
		return &FieldError{name + "." + inner.Name, inner.What}
	}
	return err
}

// Members walks an object. For each member that names lists, at most 64, it calls read with the place in names, before
// the value; a null is as if the member were not there. Other members are skipped. A listed member may come once.
func Members(s *Scanner, names []string, read func(i int) error) error {
	if err := s.Open('{'); err != nil {
		return err
	}
	var seen uint64
	for first := true; ; first = false {
		key, more, err := s.Key(first)
		if !more || err != nil {
			return err
		}
		i := 0
		for i < len(names) && names[i] != string(key) {
			i++
		}
		if i == len(names) {
			if err := s.Skip(); err != nil {
				return err
			}
			continue
		}
		if seen&(1<<i) != 0 {
			return &FieldError{names[i], "is there twice"}
		}
		seen |= 1 << i
		null, err := s.Null()
		if err != nil {
			return err
		}
		if null {
			continue
		}
		if err := read(i); err != nil {
			return Within(names[i], err)
		}
	}
}
