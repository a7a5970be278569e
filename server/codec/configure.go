package codec

// Mode says what a configuration does to the options it does not name.
type Mode uint8

// The modes of a configuration.
const (
	ModeDefault Mode = iota // none was sent
	ModeReplace             // they go back to their defaults
	ModeMerge               // they stay as they are
)

// ModeError refuses a mode that is neither of the two.
type ModeError struct {
	Got string // as it was sent, cut after 64 bytes
}

// Error is the text that clients of the API know.
func (e *ModeError) Error() string {
	return `mode must be "merge" or "replace", got ` + e.Got
}

// Configure is a configuration of a queue. It holds copies, so the body may be reused.
type Configure struct {
	Queue   string
	Mode    Mode
	Options Options
}

// DecodeConfigure reads the body of a configuration. Options stand in the object
// options, or, without one, at the top. The labels namespace and task count at the top
// in either case, if they are not empty and options does not name them.
//
// Errors: an *Error for a body that is not JSON or not an object, ErrQueueRequired,
// *ModeError, and *OptionError for a value that its option cannot take.
func DecodeConfigure(body []byte) (Configure, error) {
	var d configureDecoder
	if err := d.read(body); err != nil {
		return Configure{}, err
	}
	s, queue := &d.scan, d.top[queueField]
	if !s.isString(queue) {
		return Configure{}, ErrQueueRequired
	}
	c := Configure{Queue: string(s.text(queue))}
	var err error
	if c.Mode, err = d.readMode(); err != nil {
		return Configure{}, err
	}
	if c.Options, err = d.readOptions(); err != nil {
		return Configure{}, err
	}
	return c, nil
}

// Places in the body of a configuration, where the options may follow too.
const (
	queueField = iota
	modeField
	optionsField
	firstOption
)

// configureNames are the members of the body.
var configureNames = append([]string{queueField: "queue", modeField: "mode", optionsField: "options"}, optionNames[:]...)

// configureDecoder notes where everything stands before it looks at any value: which
// of them count is known only at the end of the body.
type configureDecoder struct {
	scan   scanner
	top    [firstOption + len(optionNames)]field // in the order of configureNames
	nested [len(optionNames)]field               // members of options
}

// read finds the members of the body.
func (d *configureDecoder) read(body []byte) error {
	s := &d.scan
	s.reset(body)
	at, more := s.begin()
	return s.finish(s.members(at, more, 1, configureNames, d.top[:]))
}

// readNested finds the members of options, which has been validated.
func (d *configureDecoder) readNested() {
	at, more := d.scan.enter(d.top[optionsField].from)
	d.scan.members(at, more, 2, optionNames[:], d.nested[:])
}

// readMode gives the value of mode.
func (d *configureDecoder) readMode() (Mode, error) {
	s, mode := &d.scan, d.top[modeField]
	if s.absent(mode) {
		return ModeDefault, nil
	}
	if s.isString(mode) {
		switch string(s.text(mode)) {
		case "replace":
			return ModeReplace, nil
		case "merge":
			return ModeMerge, nil
		}
	}
	return 0, &ModeError{Got: excerpt(s.raw(mode))}
}

// readOptions picks the fields that count and casts them.
func (d *configureDecoder) readOptions() (Options, error) {
	s, options := &d.scan, d.top[optionsField]
	fields := d.top[firstOption:]
	if !s.absent(options) {
		if s.body[options.from] != '{' {
			return Options{}, newOptionError("options", s.raw(options), "an object")
		}
		d.readNested()
		fields = d.nested[:]
	}
	var o Options
	for i, option := range o.all() {
		f := fields[i]
		if i == namespaceOption || i == taskOption {
			f = d.label(i)
		}
		if f.to > 0 && !option.cast(s, f) {
			return Options{}, newOptionError(optionNames[i], s.raw(f), option.want())
		}
	}
	return o, nil
}

// label picks one of the labels: from options, unless it is null there and the top has
// one. At the top null and "" count as absent, because clients always send the key.
func (d *configureDecoder) label(i int) field {
	top := d.top[firstOption+i]
	if d.scan.absent(top) || string(d.scan.raw(top)) == `""` {
		top = field{}
	}
	if nested := d.nested[i]; top.to == 0 || !d.scan.absent(nested) {
		return nested
	}
	return top
}
